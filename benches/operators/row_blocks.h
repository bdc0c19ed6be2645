// How a kernel goes through its rows of tokens: in blocks that fit into scratch, the next one's
// loads under way while it works on one.

#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "sim_engine/base/error.h"
#include "sim_engine/base/units.h"

namespace kernbench::benches::operators {

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
inline std::int64_t rows_per_block(const TokenShare& share, Bytes bytes_per_row, Bytes fixed = 0) {
  if (bytes_per_row < 1) {
    throw Error("KB-O004", ExitCode::collective_misuse,
                fmt::format("rows_per_block() with {} bytes of scratch for each row; they are "
                            "those of all tensors that a row has at once",
                            bytes_per_row));
  }
  if (share.count < 1) return 1;
  constexpr std::int64_t kFewBlocks = 4;
  constexpr Bytes kSmallBlock = 16 * 1024;  // below, a command costs more than it moves
  const auto divide_up = [](std::int64_t a, std::int64_t b) { return (a + b - 1) / b; };
  const std::int64_t that_fit =
      std::max<std::int64_t>(1, (share.scratch - fixed) / 2 / bytes_per_row);
  const std::int64_t wanted =
      std::max(divide_up(share.count, kFewBlocks), divide_up(kSmallBlock, bytes_per_row));
  const std::int64_t blocks = divide_up(share.count, std::min(that_fit, wanted));
  return divide_up(share.count, blocks);
}

// For each block: work(begin, count, load(begin, count)), rows counted from the share's first.
// REQUIRES: rows >= 1
template <class Load, class Work>
void for_each_block(const TokenShare& share, std::int64_t rows, const Load& load,
                    const Work& work) {
  if (share.count < 1) return;
  const auto count_at = [&](std::int64_t begin) { return std::min(rows, share.count - begin); };
  std::optional next(load(0, count_at(0)));
  for (std::int64_t begin = 0; begin < share.count; begin += rows) {
    auto loaded = *std::exchange(next, std::nullopt);
    const std::int64_t end = begin + count_at(begin);
    if (end < share.count) next.emplace(load(end, count_at(end)));
    work(begin, count_at(begin), std::move(loaded));
  }
}

}  // namespace kernbench::benches::operators
