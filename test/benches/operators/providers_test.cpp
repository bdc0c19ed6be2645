// Providers on a device: what they compute, and what they move.

#include <catch2/catch.hpp>

#include "benches/bench/context_set.h"
#include "benches/bench/row_cells.h"
#include "benches/operators/cases/cases.h"
#include "benches/operators/correctness.h"
#include "benches/operators/least_bytes.h"
#include "benches/operators/measurement.h"
#include "benches/operators/operator_cases.h"
#include "sim_engine/base/error.h"
#include "test/benches/bench_under_test.h"
#include "test/benches/operators/operator_under_test.h"
#include "test/support/error_text.h"

namespace kernbench::test::providers_test {
namespace {

using namespace benches::operators;

[[maybe_unused]] const bool kHasCases = register_shipped_cases();  // for all files of the program

using benches::ContextSet;
using benches::PointContext;
using benches::Row;

Topology small_topology(std::string_view name) {
  return benches::load_topology(std::string(name));
}

std::vector<Row> check(const OperatorCase& operator_case, const Problem& problem,
                       const Topology& topology = small_topology("tiny")) {
  BenchUnderTest dut({.topology = topology, .ccl = {}});
  ContextSet contexts(benches::Recording{});
  PointContext point(dut.bench, contexts);
  return check_providers(point, operator_case, problem);
}

TEST_CASE("all providers of all cases are right in all types, also where PEs have no token",
          "[operators]") {
  const DType dtype = GENERATE(DType::f16, DType::bf16, DType::f32);
  for (const auto& [name, operator_case] : operator_cases()) {
    for (const ProblemSize& size : {ProblemSize{1, 37, 24}, ProblemSize{1, 1, 3}}) {
      const auto rows = check(*operator_case, {size, dtype, 7});
      CHECK(rows.size() == 2 * operator_case->providers().size());
      for (const Row& row : rows) CHECK(number_in(row, "of_bound") <= 1);
    }
  }
}

TEST_CASE("any inputs are within the bound, not some", "[operators]") {
  for (const auto& [name, operator_case] : operator_cases()) {
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      CHECK_NOTHROW(check(*operator_case, {{1, 16, 40}, DType::f32, seed}));
    }
  }
}

// All results of a provider: of rows of tokens as they are, of sums their total.
std::vector<std::vector<float>> results_of(const OperatorCase& operator_case,
                                           const Problem& problem, const ProviderInfo& info) {
  RuntimeContext torch(small_topology("tiny"));
  const Definition definition = define(operator_case, problem);
  const std::vector<Tensor> inputs = make_inputs(torch, definition);
  OperatorRun run(torch, definition, inputs);
  const auto provider = info.make(run);
  provider->forward();
  provider->backward();
  std::vector<std::vector<float>> results;
  for (const Direction direction : kDirections) {
    for (std::size_t i = 0; i < definition.results(direction).size(); ++i) {
      results.push_back(run.result(direction, i).to_vector());
    }
  }
  return results;
}

// Sums over tokens are added block by block, and the blocks differ.
TEST_CASE("fusion changes no bit of a row", "[operators]") {
  const DType dtype = GENERATE(DType::f16, DType::bf16, DType::f32);
  const Problem problem{{1, 37, 24}, dtype, 3};
  for (const auto& [name, operator_case] : operator_cases()) {
    CAPTURE(operator_case->name());
    const Definition definition = define(*operator_case, problem);
    std::vector<NodeId> nodes = definition.outputs;
    for (const GradientValue& gradient : definition.gradients) nodes.push_back(gradient.node);
    const auto in_naive = results_of(*operator_case, problem, naive());
    const auto in_compiled = results_of(*operator_case, problem, compiled());
    REQUIRE(in_naive.size() == nodes.size());
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      if (definition.node(nodes[i]).is_per_token()) CHECK(in_naive[i] == in_compiled[i]);
    }
  }
}

Measured measured(const OperatorCase& operator_case, const ProviderInfo& provider,
                  Direction direction, const Problem& problem) {
  RuntimeContext torch(small_topology("tiny"), {.data = false});
  const Definition definition = define(operator_case, problem);
  return measure(torch, definition, provider)[static_cast<std::size_t>(direction)];
}

Measured measured(std::string_view name, const ProviderInfo& provider, Direction direction,
                  const Problem& problem) {
  return measured(*operator_cases().find(name), provider, direction, problem);
}

// With T tokens, N = T dim elements of s bytes, W = dim weights on each of 2 PEs.
TEST_CASE("naive rms moves what its operations load and store, by hand", "[operators]") {
  const DType dtype = GENERATE(DType::bf16, DType::f32);
  const Bytes s = size_of(dtype);
  const std::int64_t tokens = 96;
  const std::int64_t dim = 40;
  const Bytes n = tokens * dim;
  const Bytes w = 2 * dim;
  const Problem problem{{1, tokens, dim}, dtype, 0};
  // In f32 nothing is cast.
  const Bytes casts = dtype == DType::f32 ? 0 : 2 * n * (s + 4);
  const Bytes square = 8 * n;
  const Bytes mean = 4 * n + 4 * tokens;
  const Bytes shift_and_rsqrt = 16 * tokens;
  const Bytes products = (8 * n + 4 * tokens) + (8 * n + s * w);
  const Measured forward = measured("rms", naive(), Direction::forward, problem);
  CHECK(forward.bytes == casts + square + mean + shift_and_rsqrt + products);
  CHECK(forward.kernels == (dtype == DType::f32 ? 6 : 8));

  const Bytes of_product_with_weight = (8 * n + s * w) + 12 * n;    // dy w, dy n
  const Bytes of_weight = 4 * n + 4 * w;                            // its sum over tokens
  const Bytes of_product_with_r = (8 * n + 4 * tokens) + 12 * n;    // g r, g x
  const Bytes of_r = (4 * n + 4 * tokens) + (8 + 8 + 12) * tokens;  // sum; r^3, times -1/2, times
  const Bytes of_mean = 8 * tokens;                                 // times 1 / dim
  const Bytes of_square = 8 * n + (8 * n + 4 * tokens) + 12 * n;    // 2 x, times, and the sum
  const Measured backward = measured("rms", naive(), Direction::backward, problem);
  CHECK(backward.bytes == casts + of_product_with_weight + of_weight + of_product_with_r + of_r +
                              of_mean + of_square);
  CHECK(backward.kernels == (dtype == DType::f32 ? 13 : 15));
}

TEST_CASE("fused kernels move what must be moved, and r", "[operators]") {
  const Problem problem{{1, 96, 40}, DType::bf16, 0};
  const auto fused_rms = operator_cases().find("rms")->providers().back();
  const Bytes n = 96 * 40 * 2;
  const Bytes weights = 2 * 40 * 2;
  const Bytes r = 96 * 4;
  const Measured forward = measured("rms", fused_rms, Direction::forward, problem);
  CHECK(forward.bytes == 2 * n + weights + r);
  CHECK(measured("rms", compiled(), Direction::forward, problem).bytes == forward.bytes);
  const Measured backward = measured("rms", fused_rms, Direction::backward, problem);
  const Bytes gradient_of_weights = 2 * 40 * 4;
  CHECK(backward.bytes == 3 * n + weights + r + gradient_of_weights);
  // The second kernel loads x, dy and r again.
  CHECK(measured("rms", compiled(), Direction::backward, problem).bytes ==
        backward.bytes + 2 * n + r);
  // 92.16 GB/s of each of two cubes.
  CHECK(forward.roofline == Time{(2 * n + weights) * 100'000 / 18'432});
  CHECK(backward.roofline == Time{(3 * n + weights + gradient_of_weights) * 100'000 / 18'432});
}

TEST_CASE("inputs with one gradient share its tensor, one that is upstream's is upstream's",
          "[operators]") {
  RuntimeContext torch(small_topology("tiny"));
  const Problem problem{{1, 4, 8}, DType::f32, 0};
  const Definition add_rms = define(*operator_cases().find("add_rms"), problem);
  const std::vector<Tensor> inputs = make_inputs(torch, add_rms);
  const OperatorRun run(torch, add_rms, inputs);
  CHECK(run.gradient("x").storage() == run.gradient("residual").storage());

  const auto forward = [](const Inputs& in) { return std::vector<Value>{in["x"] * 2 + in["z"]}; };
  const Definition sum =
      define({token_input("x", problem), token_input("z", problem)}, forward, problem);
  const std::vector<Tensor> of_sum = make_inputs(torch, sum);
  const OperatorRun sum_run(torch, sum, of_sum);
  CHECK(sum_run.gradient("z").storage() == sum_run.upstream().storage());
  CHECK(sum_run.gradient("x").storage() != sum_run.upstream().storage());
  CHECK_THROWS_MATCHES(run.input("y"), Error, Says("KB-O002", "'y'", "x, residual, weight"));
}

TEST_CASE("kernels of values of the graph are never faster than the roofline", "[operators]") {
  const DType dtype = GENERATE(DType::bf16, DType::f32);
  for (const auto& [name, operator_case] : operator_cases()) {
    for (const ProviderInfo& info : operator_case->providers()) {
      for (const Direction direction : kDirections) {
        CAPTURE(operator_case->name(), info.name, direction);
        const Measured one = measured(*operator_case, info, direction, {{1, 96, 40}, dtype, 0});
        CHECK(one.roofline > Time{0});
        CHECK(one.in_kernels >= one.roofline);
      }
    }
  }
}

// The figures are for T tokens of dim n in f32.  Upstream gradients and gradients, and besides:
TEST_CASE("backward must be given the least of what forward may leave, by hand", "[operators]") {
  const Problem problem{{1, 10, 8}, DType::f32, 0};
  const Bytes n = 10 * 8 * 4;
  const auto backward_of = [&](const Forward& forward) {
    return least_bytes(
        define({token_input("x", problem), token_input("z", problem)}, forward, problem),
        Direction::backward, 10);
  };
  // dx = dz = 2 (x + z) dy: the sum that forward may leave, instead of x and z.
  CHECK(backward_of([](const Inputs& in) {
          return std::vector<Value>{power(in["x"] + in["z"], 2)};
        }) == n + n + n);
  // dx = z dy, dz = x dy.
  CHECK(backward_of([](const Inputs& in) { return std::vector<Value>{in["x"] * in["z"]}; }) ==
        2 * n + n + 2 * n);
  // dz = dy, which is there; dx = 2 dy.
  CHECK(backward_of([](const Inputs& in) { return std::vector<Value>{in["x"] * 2 + in["z"]}; }) ==
        0 + n + n);
  // Nothing is computed, nothing is moved.
  CHECK(backward_of([](const Inputs& in) { return std::vector<Value>{in["x"] + in["z"]}; }) == 0);
  // dx = sum(z^2) dy wants a column, but dz = 2 z sum(dy x) wants z and x.
  CHECK(backward_of([](const Inputs& in) {
          return std::vector<Value>{in["x"] * row_sum(power(in["z"], 2))};
        }) == 2 * n + n + 2 * n);
}

}  // namespace
}  // namespace kernbench::test::providers_test
