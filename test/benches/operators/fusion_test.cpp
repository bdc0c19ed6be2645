// These cases check which kernels a graph becomes.

#include "benches/operators/fusion.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>

#include "benches/operators/graph_kernel.h"
#include "benches/operators/operator_cases.h"

namespace kernbench::test::fusion_test {
namespace {

using namespace benches::operators;

const Problem kSmall{{1, 64, 32}, DType::bf16, 0};

struct KernelCounts {
  std::size_t forward = 0;
  std::size_t backward = 0;
  friend bool operator==(const KernelCounts&, const KernelCounts&) = default;
};

KernelCounts counts_of(const Plan& plan) {
  return {plan.forward.size(), plan.backward.size()};
}

TEST_CASE("a compiled case has a kernel forward, and two backward: rows, and sums over tokens",
          "[fusion]") {
  for (const auto& [name, operator_case] : operator_cases()) {
    CAPTURE(operator_case->name());
    const Plan plan = plan_fused(define(*operator_case, kSmall));
    CHECK(counts_of(plan) == KernelCounts{1, 2});
  }
}

// rms forward: x in f32, x^2, mean, + eps, rsqrt, x r, times weight, rounded.  Backward by hand in
// providers_test.cpp.  poly forward: x in f32, x^2, x^3; five for each norm, but x^2 is there
// already; three products with weights and three sums; rounded.  Backward: dy in f32; 2 for the
// bias; for each norm 4 for its weight, 3 for its product, 3 for rsqrt, 1 for the mean; 3 for the
// square of x^3, 3 for that of x^2, 4 for x^2, 3 for x^3; rounded.
TEST_CASE("a naive case has a kernel for each node", "[fusion]") {
  const std::map<std::string_view, KernelCounts> expected = {{"rms", {8, 15}},
                                                             {"add_rms", {9, 16}},
                                                             {"poly", {24, 50}},
                                                             {"mul_poly", {25, 53}},
                                                             {"grouped_mul_poly", {29, 53}}};
  for (const auto& [name, operator_case] : operator_cases()) {
    const auto found = expected.find(operator_case->name());
    REQUIRE(found != expected.end());
    CAPTURE(operator_case->name());
    const Plan plan = plan_node_by_node(define(*operator_case, kSmall));
    CHECK(plan.forward.size() == found->second.forward);
    CHECK(plan.backward.size() == found->second.backward);
  }
}

TEST_CASE("between compiled kernels only columns are stored", "[fusion]") {
  for (const auto& [name, operator_case] : operator_cases()) {
    const Definition definition = define(*operator_case, kSmall);
    Plan plan = plan_fused(definition);
    for (const Direction direction : kDirections) {
      const std::vector<NodeId> results = definition.results(direction);
      for (const KernelSpec& kernel : plan.of(direction)) {
        for (const NodeId id : kernel.stores) {
          const bool is_result = std::ranges::count(results, id) > 0;
          CHECK((is_result || definition.node(id).extents == Extents{Rows::tokens, 1}));
        }
      }
    }
  }
}

TEST_CASE("a gradient that is an upstream gradient needs no kernel", "[fusion]") {
  const auto forward = [](const Inputs& inputs) {
    return std::vector<Value>{inputs["x"] + inputs["z"]};
  };
  const Definition definition =
      define({token_input("x", kSmall), token_input("z", kSmall)}, forward, kSmall);
  CHECK(counts_of(plan_fused(definition)) == KernelCounts{1, 0});
  CHECK(counts_of(plan_node_by_node(definition)) == KernelCounts{1, 0});
}

// x bf16 is loaded ahead while x, its f32, and the square are there; the sum in f32 beside them.
TEST_CASE("the scratch of a kernel is the most that is there at once, and what is loaded ahead",
          "[fusion]") {
  const auto forward = [](const Inputs& inputs) {
    const Value x = cast(inputs["x"], DType::f32);
    return std::vector<Value>{cast(x * mean(power(x, 2)), DType::bf16)};
  };
  const Definition definition = define({token_input("x", kSmall)}, forward, kSmall);
  const Plan plan = plan_fused(definition);
  // Loaded ahead 2 B; x in f32 4 B, its square 4 B, and their sum of each row with what it is
  // made of: 8 B.
  CHECK(scratch_needs(definition, plan.forward.front()).per_row == 32 * (2 + 4 + 4) + 8);
  CHECK(scratch_needs(definition, plan.forward.front()).fixed == 0);
}

}  // namespace
TEST_CASE("backward of a compiled rms loads x, weight, dy and r, and nothing else", "[fusion]") {
  const Definition definition = define(*operator_cases().find("rms"), kSmall);
  const Plan plan = plan_fused(definition);
  REQUIRE(plan.backward.size() == 2);
  std::vector<Op> loads_of_rows;
  for (const NodeId id : plan.backward[0].loads) {
    loads_of_rows.push_back(definition.node(id).op);
  }
  CHECK(loads_of_rows == std::vector{Op::input, Op::input, Op::rsqrt, Op::input});
  CHECK(plan.backward[1].loads.size() == 3);  // not the weight
  CHECK(definition.node(plan.backward[1].stores.front()).op == Op::token_sum);
}

}  // namespace kernbench::test::fusion_test
