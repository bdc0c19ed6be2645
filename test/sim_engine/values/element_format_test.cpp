#include "sim_engine/values/element_format.h"

#include <algorithm>
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "test/sim_engine/values/soft_float.h"

namespace kernbench::sim::element_format_test {

namespace {

using soft_float::canonical;

constexpr std::uint32_t kPatternCount = 65536;

std::vector<float> decoded(DType dtype, const std::vector<std::uint16_t>& bits) {
  std::vector<float> values(bits.size());
  decode(dtype, reinterpret_cast<const std::byte*>(bits.data()), values);
  return values;
}

std::vector<std::uint16_t> encoded(DType dtype, const std::vector<float>& values) {
  std::vector<std::uint16_t> bits(values.size());
  encode(dtype, values, reinterpret_cast<std::byte*>(bits.data()));
  return bits;
}

std::vector<std::uint16_t> all_patterns() {
  std::vector<std::uint16_t> bits(kPatternCount);
  for (std::uint32_t i = 0; i < kPatternCount; ++i) bits[i] = static_cast<std::uint16_t>(i);
  return bits;
}

// Returns the numbers next to, and half-way to, every number of the type; and patterns at random.
std::vector<float> hard_to_round(soft_float::Format format) {
  std::vector<float> values;
  const auto step = 1u << (24 - format.precision);  // between neighbours, in f32's last bits
  for (std::uint32_t i = 0; i < kPatternCount; ++i) {
    const float exact = soft_float::value_of(format, i);
    const auto bits = std::bit_cast<std::uint32_t>(exact);
    for (const std::uint32_t away : {0u, 1u, step / 2 - 1, step / 2, step / 2 + 1, step - 1}) {
      values.push_back(std::bit_cast<float>(bits + away));
    }
    if (std::abs(exact) < 0x1p-13f) values.push_back(exact + std::copysign(0x1p-25f, exact));
  }
  std::mt19937 random(11);
  for (int i = 0; i < 200'000; ++i)
    values.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(random())));
  return values;
}

}  // namespace

TEST_CASE("every 16-bit pattern has its exact value and converts back to itself", "[element]") {
  const DType dtype = GENERATE(DType::f16, DType::bf16);
  const soft_float::Format format = soft_float::format_of(dtype);
  const std::vector<float> values = decoded(dtype, all_patterns());
  const std::vector<std::uint16_t> back = encoded(dtype, values);
  int wrong = 0;
  for (std::uint32_t i = 0; i < kPatternCount; ++i) {
    const auto bits = static_cast<std::uint16_t>(i);
    const float alone = dtype == DType::f16 ? value_of_f16(bits) : value_of_bf16(bits);
    const std::uint32_t expected = canonical(soft_float::value_of(format, i));
    const bool is_nan = soft_float::unpack(format, i).nan;
    const std::uint32_t quiet = 1u << (format.precision - 2);
    wrong += canonical(values[i]) != expected;
    wrong += canonical(alone) != expected;
    wrong += back[i] != (is_nan ? i | quiet : i);
  }
  CHECK(wrong == 0);
}

TEST_CASE("f32 is rounded to 16 bits to nearest, ties to even", "[element][exhaustive]") {
  const DType dtype = GENERATE(DType::f16, DType::bf16);
  const soft_float::Format format = soft_float::format_of(dtype);
  const std::vector<float> values = hard_to_round(format);
  const std::vector<std::uint16_t> bits = encoded(dtype, values);
  int wrong = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto value_bits = std::bit_cast<std::uint32_t>(values[i]);
    const std::uint32_t expected = soft_float::convert(soft_float::kF32, format, value_bits);
    const std::uint16_t alone =
        dtype == DType::f16 ? to_f16_bits(values[i]) : to_bf16_bits(values[i]);
    wrong += bits[i] != alone;  // the vector form and the portable one: NaN payloads too
    if (soft_float::unpack(format, expected).nan) {
      wrong += !soft_float::unpack(format, alone).nan;
    } else {
      wrong += alone != expected;
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("rounding has the well-known corner cases", "[element]") {
  CHECK(round_to(DType::f16, 2049.0f) == 2048.0f);
  CHECK(round_to(DType::f16, 2051.0f) == 2052.0f);
  CHECK(round_to(DType::f16, 65519.996f) == 65504.0f);
  CHECK(round_to(DType::f16, 65520.0f) == INFINITY);
  CHECK(round_to(DType::f16, -65520.0f) == -INFINITY);
  CHECK(round_to(DType::f16, 0x1p-24f) == 0x1p-24f);
  CHECK(round_to(DType::f16, 0x1p-25f) == 0.0f);
  CHECK(round_to(DType::f16, 0x1.000002p-25f) == 0x1p-24f);
  CHECK(std::signbit(round_to(DType::f16, -0x1p-30f)));
  CHECK(round_to(DType::bf16, 257.0f) == 256.0f);
  CHECK(round_to(DType::bf16, 259.0f) == 260.0f);
  CHECK(round_to(DType::bf16, 0x1.fffffep127f) == INFINITY);
  CHECK(round_to(DType::bf16, 0x1p-133f) == 0x1p-133f);
  CHECK(round_to(DType::f32, 0x1p-149f) == 0x1p-149f);
}

TEST_CASE("conversion neither depends on alignment nor writes beyond its elements", "[element]") {
  const DType dtype = GENERATE(DType::f16, DType::bf16, DType::f32);
  const auto size = static_cast<std::size_t>(size_of(dtype));
  for (std::size_t count = 0; count <= 40; ++count) {
    std::vector<float> values(count);
    for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<float>(i) - 7.5f;
    constexpr std::size_t kOdd = 3;
    constexpr std::byte kUntouched{0xa5};
    std::vector<std::byte> bytes(kOdd + count * size + 8, kUntouched);
    encode(dtype, values, bytes.data() + kOdd);
    CHECK(std::all_of(bytes.begin(), bytes.begin() + kOdd,
                      [](std::byte byte) { return byte == kUntouched; }));
    CHECK(std::all_of(bytes.end() - 8, bytes.end(),
                      [](std::byte byte) { return byte == kUntouched; }));
    std::vector<float> back(count);
    decode(dtype, bytes.data() + kOdd, back);
    CHECK(back == values);
  }
}

}  // namespace kernbench::sim::element_format_test
