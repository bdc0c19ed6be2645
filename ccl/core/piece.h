// Parts of a shard, for kernels that are written by hand.

#pragma once

#include <cstdint>
#include <vector>

#include "sim_engine/base/shape.h"

namespace kernbench::ccl {

// Elements [begin, begin + count) of a shard.
struct Piece {
  std::int64_t begin = 0;
  std::int64_t count = 0;

  Shape shape() const { return {count}; }
};

// Splits elements [begin, begin + total) into `count` parts whose sizes differ by at most one.
inline std::vector<Piece> cut(std::int64_t begin, std::int64_t total, int count) {
  std::vector<Piece> parts;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t first = total * i / count;
    parts.push_back({begin + first, total * (i + 1) / count - first});
  }
  return parts;
}

}  // namespace kernbench::ccl
