#pragma once

#include <cstdint>

namespace kernbench::sim {

// A matrix product [m, k] x [k, n] -> [m, n].
struct GemmSize {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  friend bool operator==(const GemmSize&, const GemmSize&) = default;
};

}  // namespace kernbench::sim
