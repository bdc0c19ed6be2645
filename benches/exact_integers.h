// Small integers for tests of arithmetic: drawn by a hash of what they belong to, and small enough
// for every sum of them to be exact.

#pragma once

#include <cstdint>

#include "sim_engine/base/dtype.h"

namespace kernbench::benches {

// murmur3's finalizer: distinct arguments, distinct results that seem unrelated.
constexpr std::uint32_t scrambled(std::uint32_t x) {
  x = (x ^ (x >> 16)) * 0x85ebca6b;
  x = (x ^ (x >> 13)) * 0xc2b2ae35;
  return x ^ (x >> 16);
}

// Of a seed of 64 bits.
constexpr std::uint32_t scrambled_seed(std::uint64_t seed) {
  return scrambled(static_cast<std::uint32_t>(seed ^ seed >> 32));
}

// Up to here every integer is a number of the type, so sums below it are exact.
constexpr std::int64_t exact_limit(DType dtype) {
  switch (dtype) {
    case DType::f16:
      return 2048;
    case DType::bf16:
      return 256;
    case DType::f32:
      break;
  }
  return 1 << 24;
}

}  // namespace kernbench::benches
