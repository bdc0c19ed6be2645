// Division that rounds up.

#pragma once

#include <cstdint>

namespace kernbench::sim {

// The number of parts of size b that cover a; the last one may be smaller.
// REQUIRES: a >= 0, b > 0
constexpr std::int64_t ceil_divide(std::int64_t a, std::int64_t b) {
  return a / b + (a % b != 0 ? 1 : 0);
}

}  // namespace kernbench::sim
