// The host's models, which the ranks are checked against.

#include "test/benches/tensor_parallel/oracle/dense_step.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "sim_engine/base/error.h"
#include "sim_engine/values/element_format.h"
#include "test/support/error_text.h"
#include "test/tp/tensor_parallel_world.h"

namespace kernbench::benches::dense_step_test {

namespace {

using test::Matrix;

Matrix of(const tensor_parallel::DenseMatrix& dense) {
  return {dense.rows, dense.columns, dense.elements};
}

bool equals(const tensor_parallel::Expected& expected, const Matrix& matrix) {
  return expected.rows == matrix.rows && expected.columns == matrix.columns &&
         expected.bound.empty() &&
         std::ranges::equal(expected.value, matrix.elements,
                            [](double a, float b) { return a == b; });
}

}  // namespace

TEST_CASE("the MLP's step is that of plain loops", "[tensor_parallel]") {
  const tensor_parallel::DenseModel model =
      tensor_parallel::integer_mlp({.tokens = 24, .hidden = 20, .ffn = 36}, 5);
  const Matrix x = of(model.x);
  const Matrix dy = of(model.gradient);
  const Matrix up = of(model.parameters[0]);
  const Matrix down = of(model.parameters[2]);
  const Matrix before = (x * up).plus_row(of(model.parameters[1]));
  const Matrix h = before.zipped(before, [](float a, float) { return std::max(a, 0.0F); });
  const Matrix dh =
      (dy * down.transposed()).zipped(h, [](float d, float a) { return a > 0 ? d : 0.0F; });

  const tensor_parallel::ExpectedStep step = tensor_parallel::dense_mlp_step(model);
  CHECK(equals(step.y, (h * down).plus_row(of(model.parameters[3]))));
  CHECK(equals(step.dx, dh * up.transposed()));
  REQUIRE(step.gradients.size() == 4);
  CHECK(equals(step.gradients[0], x.transposed() * dh));
  CHECK(equals(step.gradients[1], dh.sum_of_rows()));
  CHECK(equals(step.gradients[2], h.transposed() * dy));
  CHECK(equals(step.gradients[3], dy.sum_of_rows()));
}

TEST_CASE("the MLP's integers differ with the seed, and nothing of a step is all 0",
          "[tensor_parallel]") {
  const tensor_parallel::MlpSize size{.tokens = 16, .hidden = 8, .ffn = 32};
  const tensor_parallel::DenseModel model = tensor_parallel::integer_mlp(size, 0);
  CHECK(tensor_parallel::integer_mlp(size, 0).x.elements == model.x.elements);
  CHECK(tensor_parallel::integer_mlp(size, 1).x.elements != model.x.elements);
  CHECK(tensor_parallel::integer_mlp(size, 1).parameters[2].elements !=
        model.parameters[2].elements);
  const tensor_parallel::ExpectedStep step = tensor_parallel::dense_mlp_step(model);
  const auto largest = [](const tensor_parallel::Expected& matrix) {
    double most = 0;
    for (const double element : matrix.value) most = std::max(most, std::abs(element));
    return most;
  };
  CHECK(largest(step.y) > 0);
  CHECK(largest(step.dx) > 0);
  for (const tensor_parallel::Expected& gradient : step.gradients) CHECK(largest(gradient) > 0);
}

namespace {

constexpr tensor_parallel::GptSize kGpt{.sequence = 5, .hidden = 6, .heads = 3, .layers = 2};

tensor_parallel::ExpectedStep exact_step(const tensor_parallel::DenseModel& model) {
  return tensor_parallel::dense_gpt_step(model, kGpt, {.dtype = DType::f32}, 0);
}

// sum of y dy
double loss_of(const tensor_parallel::DenseModel& model) {
  const tensor_parallel::ExpectedStep step = exact_step(model);
  double loss = 0;
  for (std::size_t i = 0; i < step.y.value.size(); ++i) {
    loss += step.y.value[i] * model.gradient.elements[i];
  }
  return loss;
}

}  // namespace

TEST_CASE("the gradients of GPT are the slopes of its loss", "[tensor_parallel]") {
  tensor_parallel::DenseModel model = tensor_parallel::random_gpt(kGpt, 3);
  // Larger weights, so that every way through the block matters.
  for (tensor_parallel::DenseMatrix& parameter : model.parameters) {
    if (parameter.rows == 1) continue;
    for (float& element : parameter.elements) element *= 16;
  }
  for (float& element : model.gradient.elements) element *= 16;
  const tensor_parallel::ExpectedStep step = exact_step(model);
  REQUIRE(step.gradients.size() == 24);
  const auto check = [&](std::size_t which, std::size_t index) {
    tensor_parallel::DenseModel moved = model;
    tensor_parallel::DenseMatrix& matrix = which == 24 ? moved.x : moved.parameters[which];
    const tensor_parallel::Expected& gradient = which == 24 ? step.dx : step.gradients[which];
    REQUIRE(gradient.value.size() == matrix.elements.size());
    const float h = 0x1p-9F;
    const float at = matrix.elements[index];
    matrix.elements[index] = at + h;
    const double above = loss_of(moved);
    matrix.elements[index] = at - h;
    const double below = loss_of(moved);
    CAPTURE(which, index);
    // h^2 / 6 times a third derivative of the loss, which is at most a few hundred.
    CHECK((above - below) / (2 * h) == Approx(gradient.value[index]).margin(2e-4).epsilon(1e-4));
  };
  for (std::size_t which = 0; which <= 24; ++which) {
    const std::size_t size =
        which == 24 ? model.x.elements.size() : step.gradients[which].value.size();
    for (const std::size_t index : {std::size_t{0}, size / 3, size - 1}) check(which, index);
  }
}

TEST_CASE("GPT's numbers are numbers of every type", "[tensor_parallel]") {
  const tensor_parallel::DenseModel model = tensor_parallel::random_gpt(kGpt, 1);
  std::vector<const tensor_parallel::DenseMatrix*> all = {&model.x, &model.gradient};
  for (const tensor_parallel::DenseMatrix& parameter : model.parameters) all.push_back(&parameter);
  for (const tensor_parallel::DenseMatrix* matrix : all) {
    for (const float element : matrix->elements) {
      REQUIRE(sim::round_to(DType::f16, element) == element);
      REQUIRE(sim::round_to(DType::bf16, element) == element);
    }
  }
  CHECK(model.parameters[0].elements != model.parameters[12].elements);  // layers differ
}

TEST_CASE("the bound of GPT is as wide as the type is coarse", "[tensor_parallel]") {
  const tensor_parallel::GptSize size{.sequence = 32, .hidden = 64, .heads = 4, .layers = 1};
  const tensor_parallel::DenseModel model = tensor_parallel::random_gpt(size, 0);
  const auto bound_of = [&](const tensor_parallel::GptDevices& devices) {
    return tensor_parallel::dense_gpt_step(model, size, devices, 0).dx.bound.at(0);
  };
  const double f32 = bound_of({.dtype = DType::f32});
  const double f16 = bound_of({.dtype = DType::f16});
  const double bf16 = bound_of({.dtype = DType::bf16});
  // 2^13 and 2^3 times; samples scatter by a little.
  CHECK(f16 / f32 == Approx(8192).epsilon(0.5));
  CHECK(bf16 / f16 == Approx(8).epsilon(0.5));
  // In the gradients of qkv: one for all queries, one for keys, one for values.
  const tensor_parallel::ExpectedStep step = tensor_parallel::dense_gpt_step(model, size, {}, 0);
  CHECK(step.gradients[2].block == 16);
  CHECK(step.gradients[2].bound.size() == 3);
  CHECK(step.gradients[4].bound.size() == 1);
  // The gradient of a key is the smaller by far, and so is its bound.
  CHECK(step.gradients[2].bound[1] < step.gradients[2].bound[2] / 4);
}

}  // namespace kernbench::benches::dense_step_test
