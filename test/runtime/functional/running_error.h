// Numbers with a bound of how far a computation in f32 may be off them: running error analysis
// (Wilkinson; Higham, Accuracy and Stability of Numerical Algorithms, 3.3).

#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "sim_engine/base/dtype.h"

namespace kernbench::test {

// A value by plain mathematics, in double, and a bound for the error of a device that computes the
// same in f32, with each operation rounded to nearest.
struct Bounded {
  double value = 0;
  double error = 0;

  Bounded() = default;
  Bounded(double exact) : value(exact) {}
  Bounded(double exact, double bound) : value(exact), error(bound) {}
  // A number of a kernel, which is rounded to f32.
  static Bounded number(double x) { return {x, std::abs(static_cast<float>(x) - x)}; }

  double magnitude() const { return std::abs(value) + error; }
};

// The result of an operation of f32, that is off by `error` before it is rounded.  exp, log, rsqrt
// and sigmoid are off by 0.500001 units of the last place, all others by half a unit.
inline Bounded in_f32(double value, double error) {
  constexpr double kUnit = 1.00001 / (1 << 24);
  return {value, error + kUnit * (std::abs(value) + error)};
}

inline Bounded operator+(const Bounded& a, const Bounded& b) {
  return in_f32(a.value + b.value, a.error + b.error);
}
inline Bounded operator-(const Bounded& a, const Bounded& b) {
  return in_f32(a.value - b.value, a.error + b.error);
}
inline double error_of_product(const Bounded& a, const Bounded& b) {
  return std::abs(a.value) * b.error + a.error * b.magnitude();
}
inline Bounded operator*(const Bounded& a, const Bounded& b) {
  return in_f32(a.value * b.value, error_of_product(a, b));
}
inline Bounded operator/(const Bounded& a, const Bounded& b) {
  const double quotient = a.value / b.value;
  return in_f32(quotient, (a.error + std::abs(quotient) * b.error) / (std::abs(b.value) - b.error));
}
inline Bounded fma(const Bounded& a, const Bounded& b, const Bounded& c) {
  return in_f32(a.value * b.value + c.value, error_of_product(a, b) + c.error);
}
inline Bounded exp(const Bounded& x) {
  return in_f32(std::exp(x.value), std::exp(x.value) * std::expm1(x.error));
}
inline Bounded log(const Bounded& x) {
  return in_f32(std::log(x.value), std::log1p(x.error / (x.value - x.error)));
}
inline Bounded rsqrt(const Bounded& x) {
  const double exact = 1 / std::sqrt(x.value);
  return in_f32(exact, 1 / std::sqrt(x.value - x.error) - exact);
}
// Its slope is at most its value.
inline Bounded sigmoid(const Bounded& x) {
  const double exact = 1 / (1 + std::exp(-x.value));
  return in_f32(exact, exact * std::expm1(x.error));
}

using Numbers = std::vector<Bounded>;

// A sum of n terms whose roundings are each at most `depth` additions deep.
inline Bounded sum_of(const Numbers& terms, double depth) {
  double value = 0;
  double error = 0;
  double magnitude = 0;
  for (const Bounded& term : terms) {
    value += term.value;
    error += term.error;
    magnitude += term.magnitude();
  }
  return {value, error + 1.00001 * depth * std::ldexp(magnitude, -24)};
}
// tl.sum: 16 partial sums, added pairwise.
inline Bounded sum(const Numbers& terms) {
  return sum_of(terms, std::ceil(static_cast<double>(terms.size()) / 16) + 3);
}
// In whatever order, as PE_GEMM and sums over blocks of rows.
inline Bounded sum_in_any_order(const Numbers& terms) {
  return sum_of(terms, static_cast<double>(terms.size()));
}

// One rounding to a type, by at most half the distance of its numbers there.
inline Bounded rounded(const Bounded& x, DType dtype) {
  if (dtype == DType::f32) return x;
  const int fraction_bits = dtype == DType::f16 ? 10 : 7;
  const int least_exponent = dtype == DType::f16 ? -14 : -126;
  const int exponent = x.magnitude() == 0 ? least_exponent : std::ilogb(x.magnitude());
  const int half = std::max(exponent, least_exponent) - fraction_bits - 1;
  return {x.value, x.error + std::ldexp(1.0, half)};
}
inline Numbers rounded(Numbers numbers, DType dtype) {
  for (Bounded& number : numbers) number = rounded(number, dtype);
  return numbers;
}

inline void check_within(const std::vector<float>& computed, const Numbers& expected) {
  REQUIRE(computed.size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    INFO("element " << i << ": " << computed[i] << ", expected " << expected[i].value << " +- "
                    << expected[i].error);
    CHECK(std::abs(computed[i] - expected[i].value) <= expected[i].error);
  }
}

}  // namespace kernbench::test
