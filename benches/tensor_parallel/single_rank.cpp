#include "benches/tensor_parallel/single_rank.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "benches/bench/exact_integers.h"
#include "sim_engine/base/error.h"

namespace kernbench::benches::tensor_parallel {

namespace {

// More than any model needs that a host can compute.
constexpr Bytes kCapacity = Bytes{1} << 50;

// Half a unit in the last place of 1.
double rounding_of(DType dtype) {
  if (dtype == DType::f16) return 0x1p-11;
  return dtype == DType::bf16 ? 0x1p-8 : 0x1p-24;
}

Expected to_expected(const Tensor& tensor) {
  const std::vector<float> elements = tensor.to_vector();
  const std::int64_t columns = tensor.shape()[tensor.shape().rank() - 1];
  return {static_cast<std::int64_t>(elements.size()) / columns,
          columns,
          {elements.begin(), elements.end()}};
}

// y, the gradient of x, then those of the parameters.
std::vector<Expected> run(const SingleRank& single, StepInput input, DType dtype) {
  input.dtype = dtype;
  input.pes = 1;
  input.sequence_parallel = false;
  Topology topology = in_ring(single.topology, 1);
  topology.cube.hbm.capacity = kCapacity;
  ContextSet apart(single.whole, Recording{});
  const auto torch = apart.make(topology, {});
  const std::vector<RankStep> ranks = run_training_step(
      *torch, input, [&](RuntimeContext& own) { return single.build(own, input); }, &single.values);
  const RankStep& step = ranks.front();
  std::vector<Expected> results = {to_expected(step.y), to_expected(step.x.grad())};
  for (const tp::Parameter& parameter : step.parameters) {
    results.push_back(to_expected(parameter.grad()));
  }
  return results;
}

ExpectedStep to_step(std::vector<Expected> results) {
  return {.y = std::move(results[0]),
          .dx = std::move(results[1]),
          .gradients = {std::make_move_iterator(results.begin() + 2),
                        std::make_move_iterator(results.end())}};
}

void check_is_exact(const Expected& expected, DType dtype, std::string_view what) {
  double largest = 0;
  for (const double value : expected.value) largest = std::max(largest, std::abs(value));
  if (largest <= static_cast<double>(exact_limit(dtype))) return;
  throw UsageError("KB-U012",
                   "--set tokens: {} reaches {}, and {} holds integers exactly up to {} only; use "
                   "fewer tokens or another dtype, or check=false",
                   what, largest, name_of(dtype), exact_limit(dtype));
}

// Sets the bounds of `expected`, whose blocks of columns are of as many kinds, in turn.
void set_bounds(Expected& expected, const Expected& sample, std::size_t kinds, double rounding,
                double factor) {
  expected.bound.assign(kinds, 0);
  for (std::size_t i = 0; i < expected.value.size(); ++i) {
    const auto column = static_cast<std::int64_t>(i) % expected.columns;
    double& bound = expected.bound[static_cast<std::size_t>(column / expected.block) % kinds];
    const double value = expected.value[i];
    bound =
        std::max({bound, rounding * std::abs(value), factor * std::abs(sample.value[i] - value)});
  }
}

}  // namespace

ExpectedStep expect_equal(const SingleRank& single, const StepInput& input) {
  ExpectedStep step = to_step(run(single, input, DType::f32));
  check_is_exact(step.y, input.dtype, "y");
  check_is_exact(step.dx, input.dtype, "the gradient of x");
  for (const Expected& gradient : step.gradients) {
    check_is_exact(gradient, input.dtype,
                   gradient.rows > 1 ? "a weight's gradient" : "a bias' gradient");
  }
  return step;
}

ExpectedStep expect_near(const SingleRank& single, const StepInput& input, std::int64_t head) {
  std::vector<Expected> results = run(single, input, DType::f32);
  const DType coarse = input.dtype == DType::f32 ? DType::bf16 : input.dtype;
  const std::vector<Expected> sample = run(single, input, coarse);
  const double rounding = rounding_of(input.dtype);
  const double factor = kBoundOverSample * rounding / rounding_of(coarse) *
                        (input.dtype == DType::f32 ? kSumsInF32 : 1);
  for (std::size_t i = 0; i < results.size(); ++i) {
    const bool is_of_qkv = results[i].columns == 3 * input.hidden;
    results[i].block = is_of_qkv ? head : results[i].columns;
    set_bounds(results[i], sample[i], is_of_qkv ? 3 : 1, rounding, factor);
  }
  return to_step(std::move(results));
}

}  // namespace kernbench::benches::tensor_parallel
