// Small integers for tests of arithmetic: drawn by a hash of their position, and small enough that
// every sum of them is exact.

#pragma once

#include <cstdint>

#include "sim_engine/base/dtype.h"

namespace kernbench::benches {

// murmur3's finalizer: distinct arguments give distinct, seemingly unrelated results.
constexpr std::uint32_t scrambled(std::uint32_t x) {
  x = (x ^ (x >> 16)) * 0x85ebca6b;
  x = (x ^ (x >> 13)) * 0xc2b2ae35;
  return x ^ (x >> 16);
}

// Mixes a 64-bit seed into 32 bits.
constexpr std::uint32_t scrambled_seed(std::uint64_t seed) {
  return scrambled(static_cast<std::uint32_t>(seed ^ seed >> 32));
}

// The type represents every integer up to this limit, so sums below it are exact.
constexpr std::int64_t exact_limit(DType dtype) {
  switch (dtype) {
    case DType::f16:
      return 2048;
    case DType::bf16:
      return 256;
    default:
      return 1 << 24;
  }
}

}  // namespace kernbench::benches
