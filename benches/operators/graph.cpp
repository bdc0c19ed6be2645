#include "benches/operators/graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <tuple>

#include "sim_engine/base/error.h"

namespace kernbench::benches::operators {

namespace {

std::string_view name_of(Rows rows) {
  constexpr std::array<std::string_view, 3> kNames = {"1", "experts", "tokens"};
  return kNames.at(static_cast<std::size_t>(rows));
}

std::string describe(const Value& value) {
  return fmt::format("[{}, {}] {}", name_of(value.extents().rows), value.extents().columns,
                     kernbench::name_of(value.dtype()));
}

[[noreturn]] void refuse(Op op, std::string_view operands, std::string_view what_is_right) {
  throw Error("KB-O001", ExitCode::collective_misuse, "operator graph: {} of {}; {}", name_of(op),
              operands, what_is_right);
}

void check_operand(Op op, const Value& x) {
  if (x.node().is_sum_of_tokens()) {
    refuse(op, describe(x),
           "a sum over tokens is the end: each PE has a summand of it, and no more");
  }
  if (x.extents().rows == Rows::experts && x.extents().columns > 1) {
    refuse(op, describe(x), "what experts have is used by columns: inputs.column(name, number)");
  }
}

Value unary(Op op, const Value& x, double number = 0) {
  check_operand(op, x);
  return x.graph().add({.op = op,
                        .extents = x.extents(),
                        .dtype = x.dtype(),
                        .operands = {x.id(), -1},
                        .number = number});
}

// The shape to which both broadcast; nullopt if there is none.
std::optional<Extents> common(const Extents& a, const Extents& b) {
  const bool rows_fit = a.rows == b.rows || a.rows == Rows::one || b.rows == Rows::one;
  const bool columns_fit = a.columns == b.columns || a.columns == 1 || b.columns == 1;
  if (!rows_fit || !columns_fit) return std::nullopt;
  return Extents{std::max(a.rows, b.rows), std::max(a.columns, b.columns)};
}

Value binary(Op op, const Value& a, const Value& b) {
  check_operand(op, a);
  check_operand(op, b);
  const auto extents = common(a.extents(), b.extents());
  if (!extents) {
    refuse(op, fmt::format("{} and {}", describe(a), describe(b)),
           "rows and columns must agree, or be 1");
  }
  if (extents->rows == Rows::experts && extents->columns > 1) {
    refuse(op, fmt::format("{} and {}", describe(a), describe(b)),
           "what experts have is [experts, 1]; per_token() first");
  }
  const DType dtype = a.dtype() == b.dtype() ? a.dtype() : DType::f32;
  return a.graph().add(
      {.op = op, .extents = *extents, .dtype = dtype, .operands = {a.id(), b.id()}});
}

void check_offsets(Op op, const Value& offsets) {
  const Extents& extents = offsets.extents();
  if (extents.rows == Rows::one && extents.columns > 1 && offsets.dtype() == DType::f32) return;
  refuse(op, describe(offsets), "offsets are [1, experts + 1] f32");
}

}  // namespace

std::string_view name_of(Op op) {
  constexpr std::array<std::string_view, kOpCount> kNames = {
      "input",   "cast",      "power",     "rsqrt",       "sigmoid", "scale",    "shift",
      "row_sum", "token_sum", "per_token", "expert_sums", "add",     "subtract", "multiply"};
  return kNames.at(static_cast<std::size_t>(op));
}

const Node& Value::node() const {
  return (*graph_)[id_];
}

struct Graph::State {
  using Key = std::tuple<Op, DType, NodeId, NodeId, double, int, int>;

  std::deque<Node> nodes;  // a deque: references stay valid while nodes are added
  std::map<Key, NodeId> known;
};

Graph::Graph() : state_(std::make_unique<State>()) {}
Graph::~Graph() = default;

const Node& Graph::operator[](NodeId id) const {
  return state_->nodes[index_of(id)];
}

NodeId Graph::size() const {
  return static_cast<NodeId>(state_->nodes.size());
}

Value Graph::input(int input, const Extents& extents, DType dtype, int column) {
  return add({.extents = extents, .dtype = dtype, .input = input, .column = column});
}

Value Graph::add(const Node& node) {
  const State::Key key{node.op,     node.dtype, node.operands[0], node.operands[1],
                       node.number, node.input, node.column};
  const auto [place, is_new] = state_->known.try_emplace(key, size());
  if (is_new) state_->nodes.push_back(node);
  return {*this, place->second};
}

Value cast(const Value& x, DType dtype) {
  if (x.dtype() == dtype) return x;
  check_operand(Op::cast, x);
  return x.graph().add(
      {.op = Op::cast, .extents = x.extents(), .dtype = dtype, .operands = {x.id(), -1}});
}

Value power(const Value& x, int exponent) {
  if (exponent != 2 && exponent != 3) {
    refuse(Op::power, fmt::format("{} to {}", describe(x), exponent), "exponents are 2 and 3");
  }
  return unary(Op::power, x, exponent);
}

Value rsqrt(const Value& x) {
  return unary(Op::rsqrt, x);
}

Value sigmoid(const Value& x) {
  return unary(Op::sigmoid, x);
}

Value row_sum(const Value& x, double factor) {
  check_operand(Op::row_sum, x);
  if (x.extents().columns == 1) return x * factor;
  return x.graph().add({.op = Op::row_sum,
                        .extents = {x.extents().rows, 1},
                        .dtype = x.dtype(),
                        .operands = {x.id(), -1},
                        .number = factor});
}

Value mean(const Value& x) {
  return row_sum(x, 1.0 / static_cast<double>(x.extents().columns));
}

Value token_sum(const Value& x) {
  check_operand(Op::token_sum, x);
  if (!x.node().is_per_token()) refuse(Op::token_sum, describe(x), "rows of tokens are wanted");
  return x.graph().add(
      {.op = Op::token_sum, .extents = {Rows::one, x.extents().columns}, .operands = {x.id(), -1}});
}

Value per_token(const Value& of_experts, const Value& offsets) {
  check_operand(Op::per_token, of_experts);
  check_offsets(Op::per_token, offsets);
  if (of_experts.extents() != Extents{Rows::experts, 1}) {
    refuse(Op::per_token, describe(of_experts), "[experts, 1] is wanted");
  }
  return of_experts.graph().add({.op = Op::per_token,
                                 .extents = {Rows::tokens, 1},
                                 .operands = {of_experts.id(), offsets.id()}});
}

Value expert_sums(const Value& x, const Value& offsets) {
  check_operand(Op::expert_sums, x);
  check_offsets(Op::expert_sums, offsets);
  if (x.extents() != Extents{Rows::tokens, 1}) {
    refuse(Op::expert_sums, describe(x), "[tokens, 1] is wanted");
  }
  return x.graph().add(
      {.op = Op::expert_sums, .extents = {Rows::experts, 1}, .operands = {x.id(), offsets.id()}});
}

Value operator+(const Value& a, const Value& b) {
  return binary(Op::add, a, b);
}
Value operator-(const Value& a, const Value& b) {
  return binary(Op::subtract, a, b);
}
Value operator*(const Value& a, const Value& b) {
  return binary(Op::multiply, a, b);
}
Value operator+(const Value& x, double number) {
  return unary(Op::shift, x, number);
}
Value operator*(const Value& x, double number) {
  return number == 1 ? x : unary(Op::scale, x, number);
}

std::vector<bool> reachable(const Graph& graph, std::span<const NodeId> wanted,
                            const std::vector<bool>& given) {
  const auto at = [](NodeId id) { return static_cast<std::size_t>(id); };
  const auto is_given = [&](NodeId id) { return at(id) < given.size() && given[at(id)]; };
  std::vector<bool> reached(at(graph.size()), false);
  for (const NodeId id : wanted) reached[at(id)] = true;
  for (NodeId id = graph.size() - 1; id >= 0; --id) {
    if (!reached[at(id)] || is_given(id)) continue;
    for (const NodeId operand : graph[id].operand_ids()) reached[at(operand)] = true;
  }
  return reached;
}

}  // namespace kernbench::benches::operators
