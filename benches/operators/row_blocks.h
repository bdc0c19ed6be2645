// A kernel goes through its rows of tokens in blocks that fit into scratch; while it works on a
// block, the next block's loads are under way.

#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "sim_engine/base/dtype.h"
#include "sim_engine/base/units.h"

namespace kernbench::benches::operators {

inline constexpr Bytes kF32Bytes = size_of(DType::f32);

// The tokens of a PE: rows [first, first + count) of the whole tensors, which are the first `count`
// rows of the PE's shards.
struct TokenShare {
  std::int64_t first = 0;
  std::int64_t count = 0;
  Bytes scratch = 0;  // that the kernel may use
};

// The number of rows of a block, at least 1.  Each row takes `bytes_per_row` of scratch, including
// the loads ahead, beside `fixed` bytes that the kernel always holds.  A block gets at most half of
// the scratch, since the previous block may still use the rest.  Few rows are also divided into
// several blocks, so that loads and work overlap.
//
// Throws Error KB-O004 (exit code 21) if a row takes no bytes.
std::int64_t rows_per_block(const TokenShare& share, Bytes bytes_per_row, Bytes fixed = 0);

// Calls work(begin, count, load(begin, count)) for each block; rows are counted from the share's
// first.
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
