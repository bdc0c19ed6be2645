// The reference results of an operator: its graph in f64, token by token, with bounds on the error
// when it is computed operation by operation in its types.
//
// It uses running error analysis (Higham, Accuracy and Stability of Numerical Algorithms, 3.3):
// each value v has a bound b on |computed - v|.  With u the type's unit roundoff and t half of its
// smallest number, rounding turns b into  b + u (|v| + b) + t;  before that b is
//
//   a + b, a - b  b_a + b_b               rsqrt    b / 2 (v - b)^(-3/2), by the mean value theorem
//   a * b         |a| b_b + |b| b_a + b_a b_b      sigmoid  b / 4
//   row_sum       sum of b + (ceil(n / 16) + 3) 2^-24 sum of (|v| + b)               (tl.sum)
//   sums over tokens  likewise, with as many additions as a PE has tokens, and 4 more
//
// The error of f64 itself is below 2^-20 of that.

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "benches/operators/operator_case.h"

namespace kernbench::benches::operators {

struct Estimate {
  std::vector<double> value;
  std::vector<double> bound;
};

class Reference {
 public:
  // `tokens_on_a_pe`: the largest number of tokens on one PE.
  Reference(const Definition& definition, std::int64_t tokens_on_a_pe);

  // The elements of an input without rows of tokens, as they are after rounding to its type.
  void set_parameter(int input, std::span<const float> elements);

  // Evaluates the next token.  `rows` has its row of each input with rows of tokens, by the input's
  // number in the graph; other entries are ignored.  REQUIRES: all parameters are set
  void evaluate(std::int64_t token, std::span<const std::span<const float>> rows);

  // A result: of the last token, or a sum over all tokens so far.
  const Estimate& of(NodeId id) const { return estimates_[static_cast<std::size_t>(id)]; }
  Estimate estimate_sum(NodeId id) const;

  // The first rsqrt so far whose operand may be 0 or less within its bound: results that depend on
  // it have no bound.
  std::optional<NodeId> unbounded() const { return unbounded_; }

 private:
  void compute(NodeId id, std::int64_t token);
  void compute_row_sum(const Node& node, Estimate& result) const;
  void find_unbounded(NodeId id);
  void pick_expert(const Node& node, std::int64_t token, Estimate& result) const;
  void add_to_sum(NodeId id, std::int64_t token);
  std::optional<std::size_t> find_expert(const Node& node, std::int64_t token) const;
  const Estimate& operand(const Node& node, std::size_t index) const {
    return of(node.operands[index]);
  }

  const Definition& definition_;
  const std::int64_t tokens_on_a_pe_;
  std::vector<NodeId> inputs_;        // that results depend on
  std::vector<NodeId> once_for_all_;  // computed nodes without rows of tokens
  std::vector<NodeId> for_each_token_;
  std::vector<NodeId> sums_;
  std::optional<NodeId> unbounded_;
  bool is_ready_ = false;                        // once_for_all_ are computed
  std::vector<Estimate> estimates_;              // by node
  std::vector<std::vector<double>> magnitudes_;  // of the summands with their bounds; by node
};

}  // namespace kernbench::benches::operators
