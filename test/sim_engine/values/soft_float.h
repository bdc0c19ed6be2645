// Reference arithmetic on bit patterns, in exact integers and with one rounding to nearest even.
// Slow, and shares nothing with the code it is compared with.

#pragma once

#include <bit>
#include <cstdint>

#include "sim_engine/base/dtype.h"
#include "sim_engine/values/value.h"

namespace kernbench::soft_float {

__extension__ using Wide = unsigned __int128;
__extension__ using SignedWide = __int128;

struct Format {
  int precision;  // bits of a normal significand
  int exponent_bits;

  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  int smallest_quantum() const { return 2 - bias() - precision; }  // log2 of the least subnormal
  std::uint32_t infinity() const { return ((1u << exponent_bits) - 1) << (precision - 1); }
  std::uint32_t nan() const { return infinity() | 1u << (precision - 2); }
  std::uint32_t sign() const { return 1u << (precision - 1 + exponent_bits); }
};

inline constexpr Format kF16{11, 5};
inline constexpr Format kBf16{8, 8};
inline constexpr Format kF32{24, 8};

inline Format format_of(DType dtype) {
  return dtype == DType::f16 ? kF16 : dtype == DType::bf16 ? kBf16 : kF32;
}

// (-1)^negative * significand * 2^exponent, if finite.
struct Number {
  bool negative = false;
  bool infinite = false;
  bool nan = false;
  Wide significand = 0;
  int exponent = 0;

  bool zero() const { return !infinite && !nan && significand == 0; }
};

inline Number unpack(Format format, std::uint32_t bits) {
  Number number;
  number.negative = (bits & format.sign()) != 0;
  const std::uint32_t magnitude = bits & (format.sign() - 1);
  number.nan = magnitude > format.infinity();
  number.infinite = magnitude == format.infinity();
  const auto field = static_cast<int>(magnitude >> (format.precision - 1));
  const std::uint32_t hidden = 1u << (format.precision - 1);
  number.significand = (magnitude & (hidden - 1)) + (field == 0 ? 0 : hidden);
  number.exponent = format.smallest_quantum() + (field == 0 ? 0 : field - 1);
  return number;
}

inline int bit_length(Wide value) {
  int length = 0;
  for (; value != 0; value >>= 1) ++length;
  return length;
}

// The nearest number of `format`, ties to even.  `more`: the exact value is a little larger than
// the significand says, by less than its last bit.
inline std::uint32_t round(Format format, const Number& exact, bool more = false) {
  if (exact.nan) return format.nan();
  const std::uint32_t sign = exact.negative ? format.sign() : 0;
  if (exact.infinite) return sign | format.infinity();
  if (exact.significand == 0) return sign;
  int quantum = exact.exponent + bit_length(exact.significand) - format.precision;
  if (quantum < format.smallest_quantum()) quantum = format.smallest_quantum();
  const int dropped = quantum - exact.exponent;
  Wide kept = 0;
  if (dropped <= 0) {
    kept = exact.significand << -dropped;
  } else if (dropped < 127) {
    kept = exact.significand >> dropped;
    const Wide rest = exact.significand & ((Wide{1} << dropped) - 1);
    const Wide half = Wide{1} << (dropped - 1);
    if (rest > half || (rest == half && (more || (kept & 1) != 0))) ++kept;
  }
  const std::uint32_t hidden = 1u << (format.precision - 1);
  if (kept < hidden) return sign | static_cast<std::uint32_t>(kept);
  if (kept == 2 * hidden) {
    kept = hidden;
    ++quantum;
  }
  const auto field = static_cast<std::uint32_t>(quantum - format.smallest_quantum() + 1);
  if (field >= (1u << format.exponent_bits) - 1) return sign | format.infinity();
  return sign | field << (format.precision - 1) | (static_cast<std::uint32_t>(kept) - hidden);
}

inline Number not_a_number() {
  Number number;
  number.nan = true;
  return number;
}

// Exact, except that an addend too small to matter is replaced by another such one.
inline Number sum(Number a, Number b) {
  if (a.nan || b.nan || (a.infinite && b.infinite && a.negative != b.negative)) {
    return not_a_number();
  }
  if (a.infinite) return a;
  if (b.infinite) return b;
  if (a.zero() && b.zero()) return a.negative ? b : a;
  if (a.zero()) return b;
  if (b.zero()) return a;
  if (a.exponent < b.exponent) std::swap(a, b);
  constexpr int kWidest = 75;  // above 48 bits of a product
  if (a.exponent - b.exponent > kWidest) {
    b.significand = 1;
    b.exponent = a.exponent - kWidest;
  }
  const auto left = static_cast<SignedWide>(a.significand << (a.exponent - b.exponent));
  const auto right = static_cast<SignedWide>(b.significand);
  const SignedWide total = (a.negative ? -left : left) + (b.negative ? -right : right);
  Number result;
  result.negative = total < 0;
  result.significand = static_cast<Wide>(total < 0 ? -total : total);
  result.exponent = b.exponent;
  return result;
}

inline Number product(const Number& a, const Number& b) {
  if (a.nan || b.nan || (a.infinite && b.zero()) || (b.infinite && a.zero())) return not_a_number();
  Number result;
  result.negative = a.negative != b.negative;
  result.infinite = a.infinite || b.infinite;
  result.significand = a.significand * b.significand;
  result.exponent = a.exponent + b.exponent;
  return result;
}

// The quotient rounded to `format`.
inline std::uint32_t quotient(Format format, const Number& a, const Number& b) {
  if (a.nan || b.nan || (a.infinite && b.infinite) || (a.zero() && b.zero())) return format.nan();
  Number result;
  result.negative = a.negative != b.negative;
  result.infinite = a.infinite || b.zero();
  if (result.infinite || b.infinite) return round(format, result);
  constexpr int kExtraBits = 60;
  const Wide dividend = a.significand << kExtraBits;
  result.significand = dividend / b.significand;
  result.exponent = a.exponent - b.exponent - kExtraBits;
  return round(format, result, dividend % b.significand != 0);
}

// The larger (or smaller) of two patterns; -0 is below +0.
inline std::uint32_t extreme(Format format, std::uint32_t a, std::uint32_t b, bool larger) {
  if (unpack(format, a).nan || unpack(format, b).nan) return format.nan();
  const auto key = [&](std::uint32_t bits) {
    const auto magnitude = static_cast<std::int64_t>(bits & (format.sign() - 1));
    return (bits & format.sign()) != 0 ? -magnitude - 1 : magnitude;
  };
  return (key(a) > key(b)) == larger ? a : b;
}

// -1, 0 or 1 as a is below, equal to or above b.  REQUIRES: neither is NaN
inline int order(Format format, std::uint32_t a, std::uint32_t b) {
  const auto key = [&](std::uint32_t bits) {
    const auto magnitude = static_cast<std::int64_t>(bits & (format.sign() - 1));
    return (bits & format.sign()) != 0 ? -magnitude : magnitude;
  };
  return (key(a) > key(b)) - (key(a) < key(b));
}

inline bool holds(Format format, sim::MathOp comparison, std::uint32_t a, std::uint32_t b) {
  if (unpack(format, a).nan || unpack(format, b).nan) return comparison == sim::MathOp::not_equal;
  const int found = order(format, a, b);
  switch (comparison) {
    case sim::MathOp::less:
      return found < 0;
    case sim::MathOp::less_equal:
      return found <= 0;
    case sim::MathOp::greater:
      return found > 0;
    case sim::MathOp::greater_equal:
      return found >= 0;
    case sim::MathOp::equal:
      return found == 0;
    default:
      return found != 0;
  }
}

// a op b for patterns of one format, rounded once to that format.
inline std::uint32_t math(Format format, sim::MathOp op, std::uint32_t a, std::uint32_t b) {
  const Number left = unpack(format, a);
  Number right = unpack(format, b);
  switch (op) {
    case sim::MathOp::subtract:
      if (!right.nan) right.negative = !right.negative;
      [[fallthrough]];
    case sim::MathOp::add:
      return round(format, sum(left, right));
    case sim::MathOp::multiply:
      return round(format, product(left, right));
    case sim::MathOp::divide:
      return quotient(format, left, right);
    case sim::MathOp::maximum:
      return extreme(format, a, b, true);
    case sim::MathOp::minimum:
      return extreme(format, a, b, false);
    default:
      break;
  }
  Number one;
  one.significand = holds(format, op, a, b) ? 1 : 0;
  return round(format, one);
}

// a * b + c, rounded once to the format.
inline std::uint32_t fused(Format format, std::uint32_t a, std::uint32_t b, std::uint32_t c) {
  return round(format, sum(product(unpack(format, a), unpack(format, b)), unpack(format, c)));
}

inline std::uint32_t convert(Format from, Format to, std::uint32_t bits) {
  return round(to, unpack(from, bits));
}

// The f32 that has the value of a pattern.  All NaN are one.
inline float value_of(Format format, std::uint32_t bits) {
  return std::bit_cast<float>(convert(format, kF32, bits));
}

// The definition of our arithmetic: in f32, then rounded once to the type.  Operands and result are
// values of the type, as f32.
inline float math(DType dtype, sim::MathOp op, float a, float b) {
  const std::uint32_t unrounded =
      math(kF32, op, std::bit_cast<std::uint32_t>(a), std::bit_cast<std::uint32_t>(b));
  const Format format = format_of(dtype);
  return value_of(format, convert(kF32, format, unrounded));
}

inline float round_to(DType dtype, float value) {
  const Format format = format_of(dtype);
  return value_of(format, convert(kF32, format, std::bit_cast<std::uint32_t>(value)));
}

// For comparisons: equal for equal bits, and for any two NaN.
inline std::uint32_t canonical(float value) {
  return value == value ? std::bit_cast<std::uint32_t>(value) : kF32.nan();
}

}  // namespace kernbench::soft_float
