#include "sim_engine/values/element_format.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "sim_engine/base/check.h"
#include "sim_engine/values/f16_vectors.h"

namespace kernbench::sim {

namespace {

constexpr std::uint32_t kF32Infinity = 0x7f80'0000;
constexpr std::uint32_t kF32Magnitude = 0x7fff'ffff;

template <class Bits>
Bits load(const std::byte* source, std::size_t index) {
  Bits bits;
  std::memcpy(&bits, source + index * sizeof(Bits), sizeof(Bits));
  return bits;
}

template <class Bits>
void store(std::byte* target, std::size_t index, Bits bits) {
  std::memcpy(target + index * sizeof(Bits), &bits, sizeof(Bits));
}

void encode_f16(std::span<const float> source, std::byte* target) {
  for (std::size_t i = encode_f16_vectors(source, target); i < source.size(); ++i) {
    store(target, i, to_f16_bits(source[i]));
  }
}

void decode_f16(const std::byte* source, std::span<float> target) {
  for (std::size_t i = decode_f16_vectors(source, target); i < target.size(); ++i) {
    target[i] = value_of_f16(load<std::uint16_t>(source, i));
  }
}

// It has no branch, so that a loop over it is vectorised.
std::uint16_t bf16_bits(std::uint32_t bits) {
  const std::uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  const std::uint32_t quiet_nan = (bits >> 16) | 0x40;
  const bool is_nan = (bits & kF32Magnitude) > kF32Infinity;
  return static_cast<std::uint16_t>(is_nan ? quiet_nan : rounded);
}

// `source` may not alias `target`, which bytes otherwise may: hence the __restrict.
void encode_bf16(std::span<const float> source, std::byte* __restrict target) {
  const float* __restrict const from = source.data();
  const std::size_t count = source.size();
  for (std::size_t i = 0; i < count; ++i) {
    store(target, i, bf16_bits(std::bit_cast<std::uint32_t>(from[i])));
  }
}

void decode_bf16(const std::byte* __restrict source, std::span<float> target) {
  float* __restrict const to = target.data();
  const std::size_t count = target.size();
  for (std::size_t i = 0; i < count; ++i) to[i] = value_of_bf16(load<std::uint16_t>(source, i));
}

// To f32 by rounding to odd: towards zero, but with the last bit set if anything was cut off.  With
// two bits more than a type has, that is rounded to it as the exact value would be.
float round_to_odd(double value) {
  const auto nearest = static_cast<float>(value);
  const auto exact = static_cast<double>(nearest);
  if (exact == value || std::isnan(value)) return nearest;
  auto bits = std::bit_cast<std::uint32_t>(nearest);
  if (std::abs(exact) > std::abs(value)) --bits;
  return std::bit_cast<float>(bits | 1);
}

}  // namespace

std::uint16_t to_f16_bits(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000;
  std::uint32_t magnitude = bits & kF32Magnitude;
  if (magnitude > kF32Infinity) {  // a quiet NaN with the payload's upper bits, like F16C
    return static_cast<std::uint16_t>(sign | 0x7e00 | ((magnitude >> 13) & 0x3ff));
  }
  constexpr std::uint32_t kSmallestInfinite = 0x477f'f000;  // 65520, half-way past the largest
  if (magnitude >= kSmallestInfinite) return static_cast<std::uint16_t>(sign | 0x7c00);
  constexpr std::uint32_t kSmallestNormal = 0x3880'0000;  // 2^-14
  if (magnitude < kSmallestNormal) {
    // The distance of floats at 0.5 is 2^-24, as that of f16's subnormals: the addition rounds.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3f00'0000));
  }
  magnitude += 0xfff + ((magnitude >> 13) & 1);
  return static_cast<std::uint16_t>(sign | ((magnitude - 0x3800'0000) >> 13));
}

std::uint16_t to_bf16_bits(float value) {
  return bf16_bits(std::bit_cast<std::uint32_t>(value));
}

float value_of_f16(std::uint16_t bits) {
  const std::uint32_t sign = (bits & 0x8000u) << 16;
  const std::uint32_t magnitude = bits & 0x7fffu;
  std::uint32_t result = (magnitude << 13) + 0x3800'0000;
  if (magnitude > 0x7c00) {
    result = kF32Infinity | 0x40'0000 | (magnitude << 13);
  } else if (magnitude == 0x7c00) {
    result = kF32Infinity;
  } else if (magnitude < 0x400) {
    result = std::bit_cast<std::uint32_t>(static_cast<float>(magnitude) * 0x1p-24f);
  }
  return std::bit_cast<float>(sign | result);
}

float value_of_bf16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

namespace {

// The parameters of an 8-bit type, whose elements are finite up to `largest`.
struct Format8 {
  int mantissa_bits;
  int least_exponent;    // of a normal number
  std::uint8_t largest;  // bits of the largest finite number
  std::uint8_t beyond;   // bits of what is too large
  std::uint8_t not_a_number;
};

constexpr Format8 find_format(DType dtype) {
  return dtype == DType::f8e4m3fn ? Format8{3, -6, 0x7e, 0x7f, 0x7f}
                                  : Format8{2, -14, 0x7b, 0x7c, 0x7f};
}

// The magnitude of a number of these bits, without their sign.
float decode_magnitude(const Format8& format, int bits) {
  const int exponent = bits >> format.mantissa_bits;
  const int mantissa = bits & ((1 << format.mantissa_bits) - 1);
  const int leading = exponent == 0 ? 0 : 1 << format.mantissa_bits;
  const int power = std::max(exponent, 1) - 1 + format.least_exponent - format.mantissa_bits;
  return std::ldexp(static_cast<float>(leading + mantissa), power);
}

using Values8 = std::array<float, 256>;

Values8 decode_all(DType dtype) {
  const Format8 format = find_format(dtype);
  Values8 values;
  for (int bits = 0; bits < 256; ++bits) {
    const int magnitude = bits & 0x7f;
    float value = decode_magnitude(format, magnitude);
    if (magnitude > format.largest) {
      value = magnitude == format.beyond && format.beyond != format.not_a_number
                  ? std::numeric_limits<float>::infinity()
                  : std::numeric_limits<float>::quiet_NaN();
    }
    values[static_cast<std::size_t>(bits)] = bits >= 0x80 ? -value : value;
  }
  return values;
}

// Integers

template <class Whole>
Whole saturated(double value) {
  constexpr auto kLeast = static_cast<double>(std::numeric_limits<Whole>::min());
  if (std::isnan(value)) return 0;
  if (value < kLeast) return std::numeric_limits<Whole>::min();
  return value >= -kLeast ? std::numeric_limits<Whole>::max() : static_cast<Whole>(value);
}

// Modulo 2^8 or 2^16, but for infinities.
template <class Whole>
std::int64_t wrapped(double value) {
  using Limits = std::numeric_limits<Whole>;
  if (std::isinf(value)) return value < 0 ? Limits::min() : Limits::max();
  return static_cast<Whole>(saturated<std::int64_t>(value));
}

template <class Element, class Source, class Convert>
void encode_each(std::span<const Source> source, std::byte* target, const Convert& convert) {
  for (std::size_t i = 0; i < source.size(); ++i) {
    store(target, i, static_cast<Element>(convert(source[i])));
  }
}

template <class Element, class Target, class Convert>
void decode_each(const std::byte* source, std::span<Target> target, const Convert& convert) {
  for (std::size_t i = 0; i < target.size(); ++i) {
    target[i] = static_cast<Target>(convert(load<Element>(source, i)));
  }
}

constexpr auto as_is = [](auto element) { return element; };

}  // namespace

std::uint8_t to_f8_bits(DType dtype, float value) {
  const Format8 format = find_format(dtype);
  const auto sign = static_cast<std::uint8_t>(std::signbit(value) ? 0x80 : 0);
  const float magnitude = std::abs(value);
  if (std::isnan(value)) return sign | format.not_a_number;
  if (std::isinf(value)) return sign | format.beyond;
  if (magnitude == 0) return sign;
  int exponent = 0;
  std::frexp(magnitude, &exponent);  // magnitude = f 2^exponent with 0.5 <= f < 1
  const int least = std::max(exponent - 1, format.least_exponent) - format.mantissa_bits;
  // In units of the last place; the sum carries into the exponent by itself.
  const auto units = static_cast<int>(std::nearbyint(std::ldexp(magnitude, -least)));
  const int binade = least + format.mantissa_bits - format.least_exponent;
  const int bits = (binade << format.mantissa_bits) + units;
  return sign | (bits > format.largest ? format.beyond : static_cast<std::uint8_t>(bits));
}

float value_of_f8(DType dtype, std::uint8_t bits) {
  static const Values8 kE4m3fn = decode_all(DType::f8e4m3fn);
  static const Values8 kE5m2 = decode_all(DType::f8e5m2);
  return (dtype == DType::f8e4m3fn ? kE4m3fn : kE5m2)[bits];
}

float round_to(DType dtype, float value) {
  switch (dtype) {
    case DType::f16:
      return value_of_f16(to_f16_bits(value));
    case DType::bf16:
      return value_of_bf16(to_bf16_bits(value));
    case DType::f8e4m3fn:
    case DType::f8e5m2:
      return value_of_f8(dtype, to_f8_bits(dtype, value));
    default:
      return value;
  }
}

float round_to(DType dtype, double value) {
  if (dtype == DType::f32)
    return static_cast<float>(value);  // as IEEE 754: an infinity if too large
  return round_to(dtype, round_to_odd(value));
}

std::int64_t to_whole_number(DType dtype, double value) {
  switch (dtype) {
    case DType::boolean:
      return value != 0 ? 1 : 0;
    case DType::u8:
      return wrapped<std::uint8_t>(value);
    case DType::i8:
      return wrapped<std::int8_t>(value);
    case DType::i16:
      return wrapped<std::int16_t>(value);
    case DType::i32:
      return saturated<std::int32_t>(value);
    default:
      return saturated<std::int64_t>(value);
  }
}

std::int64_t to_whole_number(DType dtype, std::int64_t value) {
  if (dtype == DType::boolean) return value != 0 ? 1 : 0;
  const auto unused = 64 - 8 * static_cast<int>(size_of(dtype));
  const std::uint64_t bits = static_cast<std::uint64_t>(value) << unused;
  if (dtype == DType::u8) return static_cast<std::int64_t>(bits >> unused);
  return static_cast<std::int64_t>(bits) >> unused;
}

void encode(DType dtype, std::span<const float> source, std::byte* target) {
  switch (dtype) {
    case DType::f16:
      return encode_f16(source, target);
    case DType::bf16:
      return encode_bf16(source, target);
    case DType::f32:
      if (!source.empty()) std::memcpy(target, source.data(), source.size_bytes());
      return;
    case DType::i32:
      return encode_each<std::int32_t>(source, target, saturated<std::int32_t>);
    case DType::i64:
      return encode_each<std::int64_t>(source, target, saturated<std::int64_t>);
    case DType::u8:
      return encode_each<std::uint8_t>(source, target, wrapped<std::uint8_t>);
    case DType::i8:
      return encode_each<std::int8_t>(source, target, wrapped<std::int8_t>);
    case DType::i16:
      return encode_each<std::int16_t>(source, target, wrapped<std::int16_t>);
    case DType::boolean:
      return encode_each<std::uint8_t>(source, target, [](float value) { return value != 0; });
    case DType::f8e4m3fn:
    case DType::f8e5m2:
      return encode_each<std::uint8_t>(source, target,
                                       [=](float value) { return to_f8_bits(dtype, value); });
  }
}

void encode(DType dtype, std::span<const std::int64_t> source, std::byte* target) {
  switch (dtype) {
    case DType::u8:
    case DType::i8:
      return encode_each<std::uint8_t>(source, target, as_is);
    case DType::i16:
      return encode_each<std::int16_t>(source, target, as_is);
    case DType::i32:
      return encode_each<std::int32_t>(source, target, as_is);
    case DType::i64:
      if (!source.empty()) std::memcpy(target, source.data(), source.size_bytes());
      return;
    case DType::boolean:
      return encode_each<std::uint8_t>(source, target, [](auto value) { return value != 0; });
    default:
      break;
  }
  for (std::size_t i = 0; i < source.size(); ++i) {
    const auto value = static_cast<float>(source[i]);
    encode(dtype, std::span(&value, 1), target + static_cast<Bytes>(i) * size_of(dtype));
  }
}

void decode(DType dtype, const std::byte* source, std::span<float> target) {
  switch (dtype) {
    case DType::f16:
      return decode_f16(source, target);
    case DType::bf16:
      return decode_bf16(source, target);
    case DType::f32:
      if (!target.empty()) std::memcpy(target.data(), source, target.size_bytes());
      return;
    case DType::i32:
      return decode_each<std::int32_t>(source, target, as_is);
    case DType::i64:
      return decode_each<std::int64_t>(source, target, as_is);
    case DType::boolean:
    case DType::u8:
      return decode_each<std::uint8_t>(source, target, as_is);
    case DType::i8:
      return decode_each<std::int8_t>(source, target, as_is);
    case DType::i16:
      return decode_each<std::int16_t>(source, target, as_is);
    case DType::f8e4m3fn:
    case DType::f8e5m2:
      return decode_each<std::uint8_t>(source, target,
                                       [=](std::uint8_t bits) { return value_of_f8(dtype, bits); });
  }
}

void decode(DType dtype, const std::byte* source, std::span<std::int64_t> target) {
  switch (dtype) {
    case DType::boolean:
    case DType::u8:
      return decode_each<std::uint8_t>(source, target, as_is);
    case DType::i8:
      return decode_each<std::int8_t>(source, target, as_is);
    case DType::i16:
      return decode_each<std::int16_t>(source, target, as_is);
    case DType::i32:
      return decode_each<std::int32_t>(source, target, as_is);
    default:
      KB_CHECK(dtype == DType::i64, "{} read as integers", name_of(dtype));
      if (!target.empty()) std::memcpy(target.data(), source, target.size_bytes());
  }
}

}  // namespace kernbench::sim
