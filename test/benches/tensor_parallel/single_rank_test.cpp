// The step of a single rank, which ranks are compared with, is that of the host's models.

#include "benches/tensor_parallel/single_rank.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "benches/bench/inputs.h"
#include "benches/tensor_parallel/gpt_block.h"
#include "sim_engine/base/error.h"
#include "test/benches/tensor_parallel/oracle/dense_step.h"
#include "test/support/error_text.h"

namespace kernbench::benches::single_rank_test {

namespace {

tensor_parallel::RankModel build_mlp(RuntimeContext& torch, const tensor_parallel::StepInput& input,
                                     std::int64_t ffn) {
  const auto mlp = std::make_shared<tensor_parallel::ParallelMlp>(
      torch, tensor_parallel::ParallelMlpOptions{.hidden = input.hidden,
                                                 .ffn = ffn,
                                                 .activation = tensor_parallel::Activation::relu,
                                                 .dtype = input.dtype,
                                                 .pes = input.pes});
  return {[mlp](const Tensor& x) { return mlp->forward(x); }, mlp->parameters()};
}

tensor_parallel::ExpectedStep expect_mlp(const tensor_parallel::MlpSize& size, DType dtype,
                                         const tensor_parallel::DenseModel& model) {
  ContextSet whole(Recording{});
  const Topology topology = load_topology("tiny");
  return tensor_parallel::expect_equal(
      {whole, topology,
       [&](RuntimeContext& torch, const tensor_parallel::StepInput& input) {
         return build_mlp(torch, input, size.ffn);
       },
       model},
      {.tokens = size.tokens, .hidden = size.hidden, .dtype = dtype, .pes = 8});
}

bool are_equal(const tensor_parallel::Expected& a, const tensor_parallel::Expected& b) {
  return a.rows == b.rows && a.columns == b.columns && a.value == b.value && a.bound == b.bound;
}

}  // namespace

TEST_CASE("a single rank's MLP is the host's, exactly", "[tensor_parallel]") {
  const tensor_parallel::MlpSize size{.tokens = 24, .hidden = 20, .ffn = 36};
  const tensor_parallel::DenseModel model = tensor_parallel::integer_mlp(size, 5);
  const tensor_parallel::ExpectedStep expected = tensor_parallel::dense_mlp_step(model);
  const tensor_parallel::ExpectedStep found = expect_mlp(size, DType::f16, model);
  CHECK(are_equal(found.y, expected.y));
  CHECK(are_equal(found.dx, expected.dx));
  REQUIRE(found.gradients.size() == expected.gradients.size());
  for (std::size_t i = 0; i < found.gradients.size(); ++i) {
    CAPTURE(i);
    CHECK(are_equal(found.gradients[i], expected.gradients[i]));
  }
}

TEST_CASE("an MLP whose sums a type cannot hold is refused", "[tensor_parallel][errors]") {
  const tensor_parallel::MlpSize size{.tokens = 1 << 16, .hidden = 4, .ffn = 8};
  const tensor_parallel::DenseModel model = tensor_parallel::integer_mlp(size, 0);
  CHECK_THROWS_MATCHES(expect_mlp(size, DType::bf16, model), UsageError,
                       test::Says("KB-U012", "--set tokens", "bf16", "256"));
  CHECK_NOTHROW(expect_mlp(size, DType::f32, model));
}

namespace {

constexpr tensor_parallel::GptSize kGpt{.sequence = 24, .hidden = 48, .heads = 6};

tensor_parallel::ExpectedStep expect_gpt(DType dtype, const tensor_parallel::DenseModel& model) {
  ContextSet whole(Recording{});
  const Topology topology = load_topology("tiny");
  return tensor_parallel::expect_near(
      {whole, topology,
       [](RuntimeContext& torch, const tensor_parallel::StepInput& input) {
         const auto block = std::make_shared<tensor_parallel::GptBlock>(
             torch, tensor_parallel::GptBlockOptions{.hidden = kGpt.hidden,
                                                     .heads = kGpt.heads,
                                                     .dtype = input.dtype,
                                                     .pes = input.pes});
         return tensor_parallel::RankModel{[block](const Tensor& x) { return block->forward(x); },
                                           block->parameters()};
       },
       model},
      {.tokens = kGpt.sequence, .hidden = kGpt.hidden, .dtype = dtype}, kGpt.hidden / kGpt.heads);
}

// The values are within the host's bound for f32, and the bounds are as wide as the host's, which
// come from four samples in random arithmetic.
void check_near(const tensor_parallel::Expected& found, const tensor_parallel::Expected& in_f32,
                const tensor_parallel::Expected& in_dtype) {
  REQUIRE(found.value.size() == in_f32.value.size());
  REQUIRE(found.bound.size() == in_dtype.bound.size());
  for (std::size_t i = 0; i < found.value.size(); ++i) {
    const auto column = static_cast<std::int64_t>(i) % found.columns;
    REQUIRE(std::abs(found.value[i] - in_f32.value[i]) <= in_f32.bound_of(column));
    REQUIRE(found.bound_of(column) <= 4 * in_dtype.bound_of(column));
    REQUIRE(found.bound_of(column) >= in_dtype.bound_of(column) / 4);
  }
}

}  // namespace

TEST_CASE("a single rank's GPT is the host's, and so are its bounds", "[tensor_parallel]") {
  for (const std::uint64_t seed : {1, 2, 3}) {
    const tensor_parallel::DenseModel model = tensor_parallel::random_gpt(kGpt, seed);
    const tensor_parallel::ExpectedStep in_f32 =
        tensor_parallel::dense_gpt_step(model, kGpt, {.dtype = DType::f32}, seed);
    for (const DType dtype : {DType::f16, DType::bf16, DType::f32}) {
      const tensor_parallel::ExpectedStep in_dtype =
          tensor_parallel::dense_gpt_step(model, kGpt, {.dtype = dtype}, seed);
      const tensor_parallel::ExpectedStep found = expect_gpt(dtype, model);
      CAPTURE(seed, name_of(dtype));
      check_near(found.y, in_f32.y, in_dtype.y);
      check_near(found.dx, in_f32.dx, in_dtype.dx);
      REQUIRE(found.gradients.size() == in_f32.gradients.size());
      for (std::size_t i = 0; i < found.gradients.size(); ++i) {
        CAPTURE(i);
        check_near(found.gradients[i], in_f32.gradients[i], in_dtype.gradients[i]);
      }
    }
  }
}

}  // namespace kernbench::benches::single_rank_test
