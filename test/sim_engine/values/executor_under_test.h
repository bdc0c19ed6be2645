// A store and its evaluation, and random bit patterns to put into it.

#pragma once

#include <array>
#include <random>
#include <vector>

#include "sim_engine/values/data_executor.h"
#include "test/sim_engine/values/soft_float.h"

namespace kernbench::sim {

using Elements = std::vector<float>;

struct ExecutorUnderTest {
  // As many threads as the host has, unless told.
  explicit ExecutorUnderTest(int threads = 0) : executor(store, threads) {}

  MemoryStore store{true};
  DataExecutor executor;

  Elements elements(const Value& value) {
    Elements out(static_cast<std::size_t>(value.element_count()));
    executor.read(value, out);
    return out;
  }
  Elements math(DType dtype, MathOp op, const Elements& a, const Elements& b) {
    return elements(store.math(op, store.literal(dtype, a), store.literal(dtype, b)));
  }
  // An operation of one operand; the result is of the same type.
  Elements math(DType dtype, MathOp op, const Elements& a) {
    return elements(store.math(op, dtype, std::array{store.literal(dtype, a)}));
  }
  Elements math(DType dtype, MathOp op, const Elements& a, const Elements& b, const Elements& c) {
    return elements(store.math(
        op, dtype,
        std::array{store.literal(dtype, a), store.literal(dtype, b), store.literal(dtype, c)}));
  }
  Elements along_axis(DType dtype, AxisOp op, const Elements& a, const AxisForm& form) {
    return elements(store.along_axis(op, store.literal(dtype, a), form));
  }
  // How many values reading `value` computes.
  std::int64_t computed_by_reading(const Value& value) {
    const std::int64_t before = executor.computed_count();
    elements(value);
    return executor.computed_count() - before;
  }
};

inline std::vector<std::uint32_t> canonical_bits(const Elements& elements) {
  std::vector<std::uint32_t> bits;
  for (const float element : elements) bits.push_back(soft_float::canonical(element));
  return bits;
}

// Patterns of the type at random: all magnitudes, subnormals, infinities and NaN among them.
inline std::vector<std::uint32_t> random_patterns(soft_float::Format format, std::int64_t count,
                                                  std::mt19937& random) {
  const std::array<std::uint32_t, 6> special = {
      0, format.sign(), 1, format.infinity(), format.sign() | format.infinity(), format.nan()};
  std::vector<std::uint32_t> patterns(static_cast<std::size_t>(count));
  for (std::uint32_t& pattern : patterns) {
    pattern = static_cast<std::uint32_t>(random()) & (2 * format.sign() - 1);
    if (random() % 16 == 0) pattern = special[random() % special.size()];
    if (random() % 16 == 0) pattern &= ~format.infinity();  // subnormal
  }
  return patterns;
}

// Every pattern of a type of 16 bits.
inline std::vector<std::uint32_t> all_patterns() {
  std::vector<std::uint32_t> patterns(1 << 16);
  for (std::uint32_t i = 0; i < patterns.size(); ++i) patterns[i] = i;
  return patterns;
}

inline Elements values_of(soft_float::Format format, const std::vector<std::uint32_t>& patterns) {
  Elements values;
  for (const std::uint32_t bits : patterns) values.push_back(soft_float::value_of(format, bits));
  return values;
}

}  // namespace kernbench::sim
