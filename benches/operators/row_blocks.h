// How a kernel goes through its rows of tokens: in blocks that fit into scratch, the next one's
// loads under way while it works on one.

#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "sim_engine/base/dtype.h"
#include "sim_engine/base/units.h"

namespace kernbench::benches::operators {

inline constexpr Bytes kF32Bytes = size_of(DType::f32);

// The tokens of a PE: rows [first, first + count) of the whole, the first `count` of its shards.
struct TokenShare {
  std::int64_t first = 0;
  std::int64_t count = 0;
  Bytes scratch = 0;  // that the kernel may use
};

// Rows of a block, if each takes `bytes_per_row` of scratch, with what is loaded ahead, beside
// `fixed` bytes that the kernel holds all the time.  A block has half of the scratch at most: what
// the block before still uses is there beside it.  Of few rows there are a few blocks all the same,
// so that loads and work overlap.  At least 1.
//
// Throws Error KB-O004 (exit code 21) if a row takes no bytes.
std::int64_t rows_per_block(const TokenShare& share, Bytes bytes_per_row, Bytes fixed = 0);

// For each block: work(begin, count, load(begin, count)), rows counted from the share's first.
// REQUIRES: rows >= 1
template <class Load, class Work>
void for_each_block(const TokenShare& share, std::int64_t rows, const Load& load,
                    const Work& work) {
  if (share.count < 1) return;
  const auto count_at = [&](std::int64_t begin) {
    return rows < share.count - begin ? rows : share.count - begin;
  };
  std::optional next(load(0, count_at(0)));
  for (std::int64_t begin = 0; begin < share.count; begin += rows) {
    auto loaded = *std::exchange(next, std::nullopt);
    const std::int64_t end = begin + count_at(begin);
    if (end < share.count) next.emplace(load(end, count_at(end)));
    work(begin, count_at(begin), std::move(loaded));
  }
}

}  // namespace kernbench::benches::operators
