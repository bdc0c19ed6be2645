// The reference beside formulas written down a second time, and its bounds by hand.

#include "benches/operators/reference.h"

#include <catch2/catch.hpp>

#include "benches/operators/operator_cases.h"
#include "test/benches/operators/operator_under_test.h"

namespace kernbench::test::reference_test {
namespace {

using namespace benches::operators;

const Problem kSmall{{1, 7, 5}, DType::f32, 0};
constexpr std::size_t kTokens = 7;
constexpr std::size_t kDim = 5;

double mean_of_powers(std::span<const float> x, int exponent) {
  double sum = 0;
  for (const float v : x) sum += std::pow(v, exponent);
  return sum / static_cast<double>(x.size());
}

double poly(std::span<const float> x, std::size_t i, std::span<const float> w, float b) {
  const double v = x[i];
  return w[0] * v * v * v / std::sqrt(mean_of_powers(x, 6) + 1e-6) +
         w[1] * v * v / std::sqrt(mean_of_powers(x, 4) + 1e-6) +
         w[2] * v / std::sqrt(mean_of_powers(x, 2) + 1e-6) + b;
}

// The first output beside expected(x's row, token, column).
template <class Expected>
void check_forward(const OperatorUnderTest& dut, std::size_t output, const Expected& expected) {
  const auto found = dut.results(Direction::forward)[output];
  REQUIRE(found.size() == kTokens * kDim);
  for (std::size_t token = 0; token < kTokens; ++token) {
    for (std::size_t i = 0; i < kDim; ++i) {
      CHECK(found[token * kDim + i] == Approx(expected(token, i)).epsilon(1e-12));
    }
  }
}

std::span<const float> row(const std::vector<float>& all, std::size_t token) {
  return std::span(all).subspan(token * kDim, kDim);
}

OperatorUnderTest small(std::string_view name) {
  return OperatorUnderTest(define(*operator_cases().find(name), kSmall));
}

TEST_CASE("rms and add_rms are their formulas", "[operator_reference]") {
  const OperatorUnderTest rms = small("rms");
  check_forward(rms, 0, [&](std::size_t token, std::size_t i) {
    const auto x = row(rms.elements[0], token);
    return x[i] / std::sqrt(mean_of_powers(x, 2) + 1e-6) * rms.elements[1][i];
  });
  const OperatorUnderTest add_rms = small("add_rms");
  const auto sum_of = [&](std::size_t token) {
    std::vector<float> h;
    for (std::size_t i = 0; i < kDim; ++i) {
      h.push_back(row(add_rms.elements[0], token)[i] + row(add_rms.elements[1], token)[i]);
    }
    return h;
  };
  check_forward(add_rms, 0, [&](std::size_t token, std::size_t i) { return sum_of(token)[i]; });
  check_forward(add_rms, 1, [&](std::size_t token, std::size_t i) {
    const std::vector<float> h = sum_of(token);
    return h[i] / std::sqrt(mean_of_powers(h, 2) + 1e-6) * add_rms.elements[2][i];
  });
}

TEST_CASE("poly, mul_poly and grouped_mul_poly are their formulas", "[operator_reference]") {
  const OperatorUnderTest one = small("poly");
  check_forward(one, 0, [&](std::size_t token, std::size_t i) {
    return poly(row(one.elements[0], token), i, one.elements[1], one.elements[2][0]);
  });
  const OperatorUnderTest gated = small("mul_poly");
  check_forward(gated, 0, [&](std::size_t token, std::size_t i) {
    return poly(row(gated.elements[0], token), i, gated.elements[2], gated.elements[3][0]) *
           row(gated.elements[1], token)[i];
  });
  const OperatorUnderTest grouped = small("grouped_mul_poly");
  const std::vector<float>& offsets = grouped.elements[4];
  REQUIRE(offsets.size() == 49);
  check_forward(grouped, 0, [&](std::size_t token, std::size_t i) {
    std::size_t expert = 0;
    while (offsets[expert + 1] <= static_cast<float>(token)) ++expert;
    const auto weight = std::span(grouped.elements[2]).subspan(expert * 3, 3);
    return poly(row(grouped.elements[0], token), i, weight, grouped.elements[3][expert]) *
           row(grouped.elements[1], token)[i];
  });
}

// One token, its elements, and the bound of each result's first element.
double bound_of(const Forward& forward, DType dtype, const std::vector<float>& x) {
  const Problem problem{{1, 1, static_cast<std::int64_t>(x.size())}, dtype, 0};
  const Definition definition = define({token_input("x", problem)}, forward, problem);
  Reference reference(definition, 1);
  const std::vector<float> upstream(x.size(), 1);
  const std::array<std::span<const float>, 2> rows = {x, upstream};
  reference.evaluate(0, rows);
  return reference.of(definition.outputs.front()).bound.front();
}

TEST_CASE("bounds of single operations by hand", "[operator_reference]") {
  const double u = 0x1p-24;
  const auto of_x = [](const auto& function) {
    return [function](const Inputs& inputs) { return std::vector<Value>{function(inputs["x"])}; };
  };
  const auto sum = of_x([](const Value& x) { return x + x * 2; });
  // 2 * 3 is off by 6 u; the sum by that and 9 + 6 u of its own.
  CHECK(bound_of(sum, DType::f32, {3}) == Approx(6 * u + u * (9 + 6 * u)).epsilon(1e-12));
  const auto square = of_x([](const Value& x) { return power(x, 2); });
  CHECK(bound_of(square, DType::f16, {3}) == Approx(9 * (0x1p-11 + u) + 0x1p-25).epsilon(1e-12));
  CHECK(bound_of(square, DType::bf16, {3}) == Approx(9 * (0x1p-8 + u)).epsilon(1e-12));
  const auto total = of_x([](const Value& x) { return row_sum(x) * x; });
  // A sum of 17 elements takes at most 2 + 3 additions and one rounding; then comes the product's.
  CHECK(bound_of(total, DType::f32, std::vector<float>(17, 1)) ==
        Approx((5 + 1 + 1) * 17 * u).epsilon(1e-6));
  const auto root = of_x([](const Value& x) { return rsqrt(power(x, 2)); });
  // 4 is off by b = 4 u: b / 2 / (4 - b)^1.5, and u / 2 of its own.
  CHECK(bound_of(root, DType::f32, {2}) == Approx(4 * u / 2 / 8 + u / 2).epsilon(1e-6));
  const auto number = of_x([](const Value& x) { return x + 0.1; });
  // 0.1 is rounded to the type before it is added.
  const double off = 0.1 - static_cast<double>(0.1F);
  CHECK(bound_of(number, DType::f32, {1}) ==
        Approx(std::abs(off) + u * (1.1 + std::abs(off))).epsilon(1e-9));
  const auto narrow = of_x([](const Value& x) { return cast(x * 1.5, DType::bf16); });
  CHECK(bound_of(narrow, DType::f32, {2}) ==
        Approx(3 * u + (0x1p-8 + u) * (3 + 3 * u)).epsilon(1e-12));
}

}  // namespace
}  // namespace kernbench::test::reference_test
