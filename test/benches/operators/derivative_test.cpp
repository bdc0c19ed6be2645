// The backward graph beside differences of the forward graph, in f64.

#include "benches/operators/derivative.h"

#include <catch2/catch.hpp>

#include "benches/operators/operator_cases.h"
#include "test/benches/operators/operator_under_test.h"
#include "test/support/error_text.h"

namespace kernbench::test::derivative_test {
namespace {

using namespace benches::operators;

// Off by h^2 / 6 times a third derivative, which is some hundreds here.
constexpr double kStep = 0x1p-10;
constexpr double kTolerance = 2e-4;

double difference_quotient(OperatorUnderTest& dut, float& element) {
  const float before = element;
  element = before + static_cast<float>(kStep);
  const double above = dut.loss();
  element = before - static_cast<float>(kStep);
  const double below = dut.loss();
  element = before;
  return (above - below) / (2 * kStep);
}

// Every element of every gradient; returns how many.
int check_gradients(OperatorUnderTest& dut) {
  const auto gradients = dut.results(Direction::backward);
  const Definition& definition = dut.definition();
  int count = 0;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const auto& [input, column, node] = definition.gradients[i];
    const auto columns = static_cast<std::size_t>(
        definition.inputs[static_cast<std::size_t>(input)].extents.columns);
    for (std::size_t j = 0; j < gradients[i].size(); ++j) {
      const std::size_t at = column < 0 ? j : j * columns + static_cast<std::size_t>(column);
      CAPTURE(input, column, j);
      const double quotient =
          difference_quotient(dut, dut.elements[static_cast<std::size_t>(input)][at]);
      CHECK(gradients[i][j] == Approx(quotient).margin(kTolerance).epsilon(kTolerance));
      ++count;
    }
  }
  return count;
}

int check_gradients_of(const Forward& forward, std::vector<InputSpec> inputs,
                       const Problem& problem) {
  OperatorUnderTest dut(define(std::move(inputs), forward, problem));
  return check_gradients(dut);
}

const Problem kSmall{{1, 5, 6}, DType::f32, 0};

TEST_CASE("the backward graph of every case is the derivative of its definition", "[derivative]") {
  for (const auto& [name, operator_case] : operator_cases()) {
    CAPTURE(operator_case->name());
    OperatorUnderTest dut(define(*operator_case, kSmall));
    CHECK(check_gradients(dut) >= 5 * 6 + 4);
  }
}

TEST_CASE("every operation has its derivative", "[derivative]") {
  const auto forward = [](const Inputs& inputs) -> std::vector<Value> {
    const Value x = inputs["x"];
    const Value z = inputs["z"];
    const Value w = inputs["w"];
    const Value s = inputs.column("s", 1);
    const Value spread = mean(power(x - z * 0.5, 2)) + 1.5;
    return {sigmoid(x) * z - power(z, 3) * rsqrt(spread) + w * s, row_sum(x * x * w, 2) + s};
  };
  CHECK(check_gradients_of(forward,
                           {token_input("x", kSmall), token_input("z", kSmall),
                            parameter("w", kSmall, 6, 1, 0.25), parameter("s", kSmall, 3, 1, 0.25)},
                           kSmall) == 5 * 6 + 5 * 6 + 6 + 1);
}

TEST_CASE("a parameter that is used twice, in all columns and in one, gets both gradients",
          "[derivative]") {
  const auto forward = [](const Inputs& inputs) -> std::vector<Value> {
    const Value x = inputs["x"];
    const Value w = inputs["w"];
    return {x * w + w, mean(x) * mean(x * w)};
  };
  CHECK(check_gradients_of(forward, {token_input("x", kSmall), parameter("w", kSmall, 6, 1, 0.5)},
                           kSmall) == 5 * 6 + 6);
}

TEST_CASE("a gradient of a row's value that is used in all of its columns is their sum",
          "[derivative]") {
  const auto forward = [](const Inputs& inputs) -> std::vector<Value> {
    const Value x = inputs["x"];
    const Value m = mean(x);
    return {row_sum(x + m * m) * x};
  };
  CHECK(check_gradients_of(forward, {token_input("x", kSmall)}, kSmall) == 5 * 6);
}

TEST_CASE("what experts have may be computed before it is looked up for each token",
          "[derivative]") {
  const auto forward = [](const Inputs& inputs) -> std::vector<Value> {
    const Value w = inputs.column("w", 1);
    const Value gate = sigmoid(w) * power(w, 3) * rsqrt(power(w, 2) + 1) + w * w;
    return {inputs["x"] * per_token(gate, inputs["offsets"])};
  };
  CHECK(check_gradients_of(forward,
                           {token_input("x", kSmall), expert_parameter("w", kSmall, 3, 2, 1, 0.25),
                            expert_offsets("offsets", {0, 2, 2, 5})},
                           kSmall) == 5 * 6 + 3);
}

TEST_CASE("inputs without a gradient and inputs that nothing depends on have none",
          "[derivative]") {
  InputSpec fixed = token_input("fixed", kSmall);
  fixed.wants_gradient = false;
  const auto forward = [](const Inputs& inputs) -> std::vector<Value> {
    return {inputs["x"] * inputs["fixed"]};
  };
  const Definition definition =
      define({fixed, token_input("x", kSmall), token_input("unused", kSmall)}, forward, kSmall);
  REQUIRE(definition.gradients.size() == 1);
  CHECK(definition.gradients[0].input == 1);
}

TEST_CASE("the gradient of what is rounded on its way is rounded on its way back", "[derivative]") {
  const Problem half{{1, 5, 6}, DType::f16, 0};
  const auto forward = [](const Inputs& inputs) -> std::vector<Value> {
    return {cast(cast(inputs["x"], DType::f32) * inputs["w"], DType::f16)};
  };
  const Definition definition =
      define({token_input("x", half), parameter("w", half, 6, 1, 0)}, forward, half);
  REQUIRE(definition.gradients.size() == 2);
  CHECK(definition.node(definition.gradients[0].node).dtype == DType::f16);
  CHECK(definition.node(definition.gradients[1].node).dtype == DType::f32);
  CHECK(definition.node(definition.gradients[1].node).op == Op::token_sum);
}

TEST_CASE("a gradient that is the same for all columns of an input is refused", "[derivative]") {
  const auto forward = [](const Inputs& inputs) -> std::vector<Value> {
    return {mean(inputs["x"])};
  };
  CHECK_THROWS_MATCHES(define({token_input("x", kSmall)}, forward, kSmall), Error,
                       Says("KB-O001", "input 0", "6 columns"));
}

}  // namespace
}  // namespace kernbench::test::derivative_test
