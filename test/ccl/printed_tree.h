// An evaluator of printed sums, which knows nothing of the product's trees but their text, and
// numbers to add up.

#pragma once

#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim_engine/base/dtype.h"

namespace kernbench::test {

// Rounds to the nearest number of the type, ties to even.
inline float rounded(float number, DType dtype) {
  if (dtype == DType::f32) return number;
  const auto bits = std::bit_cast<std::uint32_t>(number);
  return std::bit_cast<float>((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000);  // bf16
}

struct Leaf {
  int rank = 0;
  int cube = 0;
  int pe = 0;
};

// A printed tree in postfix form: a leaf, or nullopt for an addition of the two results before.
class PrintedTree {
 public:
  explicit PrintedTree(const std::string& text) : rest_(text) {
    read();
    demand(rest_.empty());
  }

  template <class ValueOf>
  float value(DType dtype, const ValueOf& value_of) const {
    std::vector<float> stack;
    for (const std::optional<Leaf>& leaf : postfix_) {
      if (leaf) {
        stack.push_back(value_of(*leaf));
        continue;
      }
      const float right = stack.back();
      stack.pop_back();
      stack.back() = rounded(stack.back() + right, dtype);
    }
    return stack.front();
  }

 private:
  void read() {
    if (!takes("(")) return read_leaf();
    read();
    demand(takes("+"));
    read();
    demand(takes(")"));
    postfix_.emplace_back();
  }
  void read_leaf() {
    Leaf leaf;
    demand(takes("r"));
    leaf.rank = number();
    if (takes(".cube")) leaf.cube = number();
    if (takes(".pe")) leaf.pe = number();
    postfix_.emplace_back(leaf);
  }
  int number() {
    std::size_t digits = 0;
    const int number = std::stoi(std::string(rest_), &digits);
    rest_.remove_prefix(digits);
    return number;
  }
  void demand(bool is_so) const {
    if (!is_so) FAIL("no tree goes on with '" << rest_ << "'");
  }
  bool takes(std::string_view word) {
    if (!rest_.starts_with(word)) return false;
    rest_.remove_prefix(word.size());
    return true;
  }

  std::string_view rest_;
  std::vector<std::optional<Leaf>> postfix_;
};

// In (0, 1), other for each number.
inline double uniform(std::uint64_t number) {
  number = (number + 1) * 0x9e3779b97f4a7c15;
  number = (number ^ (number >> 30)) * 0xbf58476d1ce4e5b9;
  number = (number ^ (number >> 27)) * 0x94d049bb133111eb;
  return (static_cast<double>((number ^ (number >> 31)) >> 11) + 0.5) * 0x1p-53;
}

// Normally distributed (Box and Muller), and a number of the type.
inline float drawn(const Leaf& leaf, std::int64_t position, DType dtype) {
  const auto summand = static_cast<std::uint64_t>((leaf.rank * 64 + leaf.cube) * 64 + leaf.pe);
  const std::uint64_t number = (summand << 32 | static_cast<std::uint64_t>(position)) * 2;
  const double radius = std::sqrt(-2 * std::log(uniform(number)));
  const double angle = 2 * std::numbers::pi * uniform(number + 1);
  return rounded(static_cast<float>(radius * std::cos(angle)), dtype);
}

}  // namespace kernbench::test
