#include "sim_engine/values/transcendental.h"

#include <array>
#include <bit>
#include <cmath>
#include <limits>

// All loops but those of sin and cos have no branches and no calls, so that they are vectorised. As
// `out` may be `in`, each element is read before it is written, and none further on.

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
double compute_exp(double x) {
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

double compute_log(double x) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  const double result = log_of_normal(x);
  const double not_positive = x == 0 ? -kInfinity : kNan;
  const double special = x == kInfinity ? kInfinity : not_positive;
  return x > 0 && x < kInfinity ? result : special;
}

// An angle x = n pi / 2 + rest, with |rest| <= pi / 4.
struct Angle {
  std::uint64_t quarters = 0;  // n modulo 4
  double rest = 0;
};

// The product of x and 2 / pi modulo 4, of which only 128 bits of 2 / pi matter: those above
// give multiples of 4, and those below less than the last bit of f32.  (Payne and Hanek, 1983; the
// table's words of 32 bits begin 8 bits after each other.)
// REQUIRES: x is finite
Angle large_angle(float x) {
  constexpr std::array<std::uint32_t, 28> kTwoOverPi = {
      0xa2,       0xa2f9,     0xa2f983,   0xa2f9836e, 0xf9836e4e, 0x836e4e44, 0x6e4e4415,
      0x4e441529, 0x441529fc, 0x1529fc27, 0x29fc2757, 0xfc2757d1, 0x2757d1f5, 0x57d1f534,
      0xd1f534dd, 0xf534ddc0, 0x34ddc0db, 0xddc0db62, 0xc0db6295, 0xdb629599, 0x6295993c,
      0x95993c43, 0x993c4390, 0x3c439041, 0x439041fe, 0x9041fe51, 0x41fe5163, 0xfe5163ab};
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t* const words = kTwoOverPi.data() + (bits >> 26 & 15);
  const std::uint32_t mantissa = ((bits & 0x7f'ffff) | 0x80'0000) << (bits >> 23 & 7);
  const auto times = [&](std::size_t word) { return std::uint64_t{mantissa} * words[word]; };
  const std::uint64_t product = (times(0) << 32) + times(4) + (times(8) >> 32);
  const auto beyond = static_cast<double>((times(8) & 0xffff'ffff) + (times(12) >> 32));
  const std::uint64_t quarters = (product + (std::uint64_t{1} << 61)) >> 62;
  constexpr double kPiBy2To63 = 0x1.921fb54442d18p-62;
  const double rest =
      static_cast<double>(static_cast<std::int64_t>(product - (quarters << 62))) + beyond * 0x1p-32;
  return x < 0 ? Angle{-quarters, -rest * kPiBy2To63} : Angle{quarters, rest * kPiBy2To63};
}

Angle reduce_angle(float x) {
  constexpr float kSmall = 128;
  if (std::abs(x) >= kSmall) return large_angle(x);
  // pi / 2 in two parts; the product of the first with a whole number up to 8 bits is exact.
  constexpr double kHalfPiHigh = 0x1.921fb54400000p+0;
  constexpr double kHalfPiLow = 0x1.0b4611a626331p-34;
  constexpr double kTwoByPi = 0x1.45f306dc9c883p-1;
  const double n = std::floor(x * kTwoByPi + 0.5);
  return {static_cast<std::uint64_t>(static_cast<std::int64_t>(n)),
          (x - n * kHalfPiHigh) - n * kHalfPiLow};
}

// Taylor's series up to r^15 and r^16, whose remainders are 2^-54 of the results and less.
double sin_of_rest(double r) {
  const double z = r * r;
  return r * polynomial(z, 1.0, -1 / 6.0, 1 / 120.0, -1 / 5040.0, 1 / 362880.0, -1 / 39916800.0,
                        1 / 6227020800.0, -1 / 1307674368000.0);
}
double cos_of_rest(double r) {
  const double z = r * r;
  return polynomial(z, 1.0, -1 / 2.0, 1 / 24.0, -1 / 720.0, 1 / 40320.0, -1 / 3628800.0,
                    1 / 479001600.0, -1 / 87178291200.0, 1 / 20922789888000.0);
}

// The sine of x + turn pi / 2.
float compute_sin(float x, std::uint64_t turn) {
  if (!std::isfinite(x)) return std::numeric_limits<float>::quiet_NaN();
  const Angle angle = reduce_angle(x);
  const std::uint64_t quarters = angle.quarters + turn;
  const double size = quarters % 2 == 0 ? sin_of_rest(angle.rest) : cos_of_rest(angle.rest);
  return static_cast<float>(quarters & 2 ? -size : size);
}

// erf x = 2 / sqrt(pi) x e^(-x^2) (1 + z / 3 (1 + z / 5 (...))) with z = 2 x^2, whose terms are all
// positive.  Beyond 4, erf is 1 in f32, and up to there 64 terms leave a remainder of 2^-60.
constexpr int kErfTerms = 64;

constexpr auto kOddInverses = [] {
  std::array<double, kErfTerms> inverses{};
  for (std::size_t i = 0; i < inverses.size(); ++i) {
    inverses[i] = 1 / (2 * static_cast<double>(i) + 3);
  }
  return inverses;
}();

double compute_erf(double x) {
  constexpr double kFarthest = 4;
  constexpr double kTwoBySqrtPi = 0x1.20dd750429b6dp+0;
  x = x > kFarthest ? kFarthest : x;
  x = x < -kFarthest ? -kFarthest : x;  // NaN stays
  const double z = 2 * x * x;
  double sum = 1;
#pragma GCC unroll 64
  for (std::size_t i = kErfTerms; i-- > 0;) sum = 1 + sum * (z * kOddInverses[i]);
  return kTwoBySqrtPi * x * compute_exp(-x * x) * sum;
}

}  // namespace

void exp_elements(const float* __restrict in, float* __restrict out, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) out[i] = static_cast<float>(compute_exp(in[i]));
}

void log_elements(const float* __restrict in, float* __restrict out, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) out[i] = static_cast<float>(compute_log(in[i]));
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
    out[i] = static_cast<float>(1 / (1 + compute_exp(-static_cast<double>(in[i]))));
  }
}

void floor_elements(const float* __restrict in, float* __restrict out, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) out[i] = std::floor(in[i]);
}

void exp2_elements(const float* __restrict in, float* __restrict out, std::int64_t count) {
  constexpr double kLn2 = kLn2High + kLn2Low;
  for (std::int64_t i = 0; i < count; ++i) out[i] = static_cast<float>(compute_exp(in[i] * kLn2));
}

void log2_elements(const float* __restrict in, float* __restrict out, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) out[i] = static_cast<float>(compute_log(in[i]) * kLog2E);
}

void sin_elements(const float* __restrict in, float* __restrict out, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) out[i] = compute_sin(in[i], 0);
}

void cos_elements(const float* __restrict in, float* __restrict out, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) out[i] = compute_sin(in[i], 1);
}

void erf_elements(const float* __restrict in, float* __restrict out, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) out[i] = static_cast<float>(compute_erf(in[i]));
}

}  // namespace kernbench::sim
