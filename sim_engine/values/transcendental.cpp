#include "sim_engine/values/transcendental.h"

#include <bit>
#include <cmath>
#include <limits>

// The loops have no branches and no calls, so that they are vectorised.  As `out` may be `in`, each
// element is read before it is written, and none further on.

namespace kernbench::sim {

namespace {

// first + x (second + x (...)).
constexpr double polynomial(double, double last) {
  return last;
}
template <class... Coefficients>
constexpr double polynomial(double x, double first, Coefficients... others) {
  return first + x * polynomial(x, others...);
}

// ln 2 in two parts; a product of the first with a whole number of up to 12 bits is exact.
constexpr double kLn2High = 0x1.62e42fefa0000p-1;
constexpr double kLn2Low = 0x1.cf79abc9e3b3ap-40;
constexpr double kLog2E = 0x1.71547652b82fep+0;

// e^x = 2^k e^r with whole k and |r| <= ln(2) / 2, and Taylor's series of e^r up to r^11, whose
// remainder is 2^-47 of the result.
double exp_of(double x) {
  constexpr double kFarthest = 150;  // beyond, every f32 result is 0 or infinite
  x = x > kFarthest ? kFarthest : x;
  x = x < -kFarthest ? -kFarthest : x;  // NaN stays
  // Doubles of this size have a distance of 1, so the sum is rounded to a whole number, which then
  // is in its lowest bits.
  constexpr double kRounder = 0x1.8p52;
  const double rounded = x * kLog2E + kRounder;
  const double k = rounded - kRounder;
  const double r = (x - k * kLn2High) - k * kLn2Low;
  const double e_to_r =
      polynomial(r, 1.0, 1.0, 1 / 2.0, 1 / 6.0, 1 / 24.0, 1 / 120.0, 1 / 720.0, 1 / 5040.0,
                 1 / 40320.0, 1 / 362880.0, 1 / 3628800.0, 1 / 39916800.0);
  const auto two_to_k = (std::bit_cast<std::uint64_t>(rounded) + 1023) << 52;
  return e_to_r * std::bit_cast<double>(two_to_k);
}

// log x = k ln(2) + log m with m from sqrt(1/2) to sqrt(2), and log m = 2 atanh(s) with
// s = (m - 1) / (m + 1): the series in s^2 <= 0.0295 up to its 8th power, whose remainder is 2^-50.
// REQUIRES: x is normal and above 0
double log_of_normal(double x) {
  constexpr std::uint64_t kOne = 0x3ff0'0000'0000'0000;
  constexpr std::uint64_t kSqrtHalf = 0x3fe6'a09e'667f'3bcd;
  const auto bits = std::bit_cast<std::uint64_t>(x);
  const std::uint64_t biased = (bits + (kOne - kSqrtHalf)) >> 52;  // k + 1023
  const double m = std::bit_cast<double>(bits - (biased << 52) + kOne);
  constexpr double kTwo52 = 0x1p52;
  const double k =
      std::bit_cast<double>(std::bit_cast<std::uint64_t>(kTwo52) | biased) - (kTwo52 + 1023);
  const double s = (m - 1) / (m + 1);
  const double z = s * s;
  const double sum = polynomial(z, 1.0, 1 / 3.0, 1 / 5.0, 1 / 7.0, 1 / 9.0, 1 / 11.0, 1 / 13.0,
                                1 / 15.0, 1 / 17.0);
  return k * kLn2High + (2 * s * sum + k * kLn2Low);
}

double log_of(double x) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  const double result = log_of_normal(x);
  const double not_positive = x == 0 ? -kInfinity : kNan;
  const double special = x == kInfinity ? kInfinity : not_positive;
  return x > 0 && x < kInfinity ? result : special;
}

}  // namespace

void exp_elements(const float* __restrict in, float* __restrict out, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) out[i] = static_cast<float>(exp_of(in[i]));
}

void log_elements(const float* __restrict in, float* __restrict out, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) out[i] = static_cast<float>(log_of(in[i]));
}

void sqrt_elements(const float* __restrict in, float* __restrict out, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) out[i] = std::sqrt(in[i]);
}

void rsqrt_elements(const float* __restrict in, float* __restrict out, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    out[i] = static_cast<float>(1 / std::sqrt(static_cast<double>(in[i])));
  }
}

void sigmoid_elements(const float* __restrict in, float* __restrict out, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    out[i] = static_cast<float>(1 / (1 + exp_of(-static_cast<double>(in[i]))));
  }
}

}  // namespace kernbench::sim
