// The computation of an operator as a graph of elementary tensor operations (ADR-0140).
//
// A value has rows and columns: a row for each token, for each expert, or one; `dim` columns, or
// one.  Operands of + - * are broadcast as in PyTorch: one row or one column fits any number.  If
// the types differ, the result is f32.  Each operation rounds once to the type of its result.
//
//   const Value x = cast(inputs["x"], DType::f32);
//   const Value r = rsqrt(mean(power(x, 2)) + eps);
//   return {cast(x * r * inputs["weight"], inputs["x"].dtype())};

#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "sim_engine/base/dtype.h"

namespace kernbench::benches::operators {

enum class Rows : std::uint8_t { one, experts, tokens };

struct Extents {
  Rows rows = Rows::one;
  std::int64_t columns = 1;

  friend bool operator==(const Extents&, const Extents&) = default;
};

enum class Op : std::uint8_t {
  input,  // a tensor from outside, or a column of it
  // of one operand
  cast,         // to the node's type
  power,        // x^2 or x^3, by multiplications
  rsqrt,        // 1 / sqrt(x)
  sigmoid,      // 1 / (1 + exp(-x))
  scale,        // times a number
  shift,        // plus a number
  row_sum,      // over the columns
  token_sum,    // over the rows of tokens, in f32; one summand on each PE
  per_token,    // of each expert's row the one of the token's expert; offsets are the 2nd operand
  expert_sums,  // over each expert's tokens, in f32; one summand on each PE; likewise
  // of two
  add,
  subtract,
  multiply,
};

inline constexpr std::size_t kOpCount = 14;

// "cast", "power", ...
std::string_view name_of(Op op);

using NodeId = std::int32_t;

// The position of a node in arrays that have an element for each node.
constexpr std::size_t index_of(NodeId id) {
  return static_cast<std::size_t>(id);
}

struct Node {
  Op op = Op::input;
  Extents extents = {};
  DType dtype = DType::f32;
  std::array<NodeId, 2> operands = {-1, -1};  // those that there are
  double number = 0;                          // factor, summand or exponent
  int input = -1;                             // which tensor
  int column = -1;                            // of it; -1: all of them

  std::span<const NodeId> operand_ids() const {
    const std::size_t count = operands[0] < 0 ? 0 : operands[1] < 0 ? 1 : 2;
    return std::span(operands).first(count);
  }
  bool is_per_token() const { return extents.rows == Rows::tokens; }
  // True if the node is a sum over tokens: every PE has a summand, and no node may use the sum.
  bool is_sum_of_tokens() const { return op == Op::token_sum || op == Op::expert_sums; }
};

class Graph;

// A node of a graph, as an author of a case holds it.
class Value {
 public:
  Value(Graph& graph, NodeId id) : graph_(&graph), id_(id) {}

  Graph& graph() const { return *graph_; }
  NodeId id() const { return id_; }
  const Node& node() const;
  const Extents& extents() const { return node().extents; }
  DType dtype() const { return node().dtype; }

 private:
  Graph* graph_;
  NodeId id_;
};

// Nodes, each after its operands.  Adding the same operation twice yields one node.
class Graph {
 public:
  Graph();
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  Value input(int input, const Extents& extents, DType dtype, int column = -1);

  // Adds the node, or returns the equal node that is there already.
  Value add(const Node& node);

  const Node& operator[](NodeId id) const;
  NodeId size() const;
  Value value(NodeId id) { return {*this, id}; }

 private:
  struct State;

  const std::unique_ptr<State> state_;
};

// Operations.  Each throws Error KB-O001 (exit code 21) if its operands do not fit.
Value cast(const Value& x, DType dtype);    // to its own type: x itself
Value power(const Value& x, int exponent);  // 2 or 3
Value rsqrt(const Value& x);
Value sigmoid(const Value& x);
Value row_sum(const Value& x, double factor = 1);  // [rows, columns] -> [rows, 1], times a factor
Value mean(const Value& x);                        // of each row: row_sum(x, 1 / columns)
Value token_sum(const Value& x);                   // [tokens, columns] -> [1, columns]
// [experts, 1] -> [tokens, 1] and back.  Token t is of expert e if offsets[e] <= t < offsets[e + 1]
// (f32, [1, experts + 1]).
Value per_token(const Value& of_experts, const Value& offsets);
Value expert_sums(const Value& x, const Value& offsets);
Value operator+(const Value& a, const Value& b);
Value operator-(const Value& a, const Value& b);
Value operator*(const Value& a, const Value& b);
Value operator+(const Value& x, double number);
Value operator*(const Value& x, double number);

// By id, whether a node is needed for `wanted`; the operands of nodes in `given` are not followed.
std::vector<bool> reachable(const Graph& graph, std::span<const NodeId> wanted,
                            const std::vector<bool>& given);

}  // namespace kernbench::benches::operators
