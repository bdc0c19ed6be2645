// A shard cut in pieces that travel on their own.

#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/tl/tl.h"

namespace kernbench::ccl {

// Elements [begin, begin + count) of a shard, and their value once it is in scratch.
struct Chunk {
  std::int64_t begin = 0;
  std::int64_t count = 0;
  std::optional<tl::Tensor> value;

  bool empty() const { return count == 0; }
  Shape shape() const { return {count}; }
};

// Cuts elements [begin, begin + total) into `count` chunks whose sizes differ by one at most.
std::vector<Chunk> cut(std::int64_t begin, std::int64_t total, int count);

}  // namespace kernbench::ccl
