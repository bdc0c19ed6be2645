// Division that rounds up.

#pragma once

#include <cstdint>

namespace kernbench::sim {

// How many pieces of size b cover a; the last piece may be smaller.
// REQUIRES: a >= 0, b > 0
constexpr std::int64_t ceil_divide(std::int64_t a, std::int64_t b) {
  return a / b + (a % b != 0 ? 1 : 0);
}

}  // namespace kernbench::sim
