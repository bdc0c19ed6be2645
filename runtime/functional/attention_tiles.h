// Tiles of scores of one head, and the rows and keys that belong to them: the kernels of attention
// over packed sequences share these.

#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "runtime/functional/attention_shares.h"
#include "runtime/functional/packed_attention.h"
#include "runtime/functional/packed_rows.h"
#include "runtime/tl/tl.h"
#include "sim_engine/base/ceil_divide.h"

namespace kernbench::ops {

inline constexpr std::string_view kAttentionBackward = "varlen_attn_backward";

// The commands of about two tiles, or of a block of rows: the next loads run while the arrays work.
inline constexpr int kCommandsUnderWay = 128;

// The rows and columns of a tile of scores, as large as scratch allows.
std::int64_t choose_tile(const tl::Context& tl, std::int64_t depth, DType dtype);

// Calls visit(begin, size) for the blocks of for_each_block(), beginning with one of the last half,
// which see many keys, or with one of two.  Heads begin with different blocks, since PEs that begin
// with the same one wait for the memory that has it.
template <class Visit>
void for_each_block_from(std::int64_t head, std::int64_t count, std::int64_t most, Visit visit) {
  const std::int64_t blocks = sim::ceil_divide(count, most);
  const std::int64_t first =
      blocks - 1 - head % std::max(blocks - blocks / 2, std::min<std::int64_t>(blocks, 2));
  for (std::int64_t i = 0; i < blocks; ++i) {
    const std::int64_t begin = (first + i) % blocks * most;
    visit(begin, std::min(most, count - begin));
  }
}

// A tile of scores of one head: these rows of a sequence's query and of its keys.
struct ScoreTile {
  std::int64_t row = 0;
  std::int64_t rows = 0;
  std::int64_t key = 0;
  std::int64_t keys = 0;
};

class AttentionTiles {
 public:
  AttentionTiles(const PackedAttention& attention, const std::vector<Tensor>& query,
                 const std::vector<Tensor>& key, const std::vector<Tensor>& value);

  const PackedSequence& sequence(const AttentionShare& share) const {
    return attention_.sequences[share.sequence];
  }
  std::int64_t group() const { return attention_.group(); }
  std::int64_t tile(const tl::Context& tl) const {
    return choose_tile(tl, attention_.depth, dtype_);
  }

  tl::Tensor query(tl::Context& tl, const PackedSequence& of, const ScoreTile& at,
                   std::int64_t head, const tl::LoadOptions& options = {}) const {
    return query_.load(tl, of.query + at.row, at.rows, head, options);
  }
  tl::Tensor key(tl::Context& tl, const PackedSequence& of, const ScoreTile& at,
                 std::int64_t key_head, const tl::LoadOptions& options = {}) const {
    return key_.load(tl, of.key + at.key, at.keys, key_head, options);
  }
  tl::Tensor value(tl::Context& tl, const PackedSequence& of, const ScoreTile& at,
                   std::int64_t key_head, const tl::LoadOptions& options = {}) const {
    return value_.load(tl, of.key + at.key, at.keys, key_head, options);
  }

  // Keys and values that several blocks of rows need come by way of SRAM.
  tl::LoadOptions loads_of_keys(const AttentionShare& share, std::int64_t tile) const {
    const std::int64_t rows = sequence(share).query_rows;
    return {.is_shared = group() > 1 || rows > tile || rows > share.end - share.first};
  }
  // Rows that several blocks of keys need come by way of SRAM.
  tl::LoadOptions loads_of_rows(const AttentionShare& share, std::int64_t tile) const {
    const std::int64_t keys = sequence(share).key_rows;
    return {.is_shared = keys > tile || keys > share.end - share.first};
  }

  // The number of keys that the last of these rows sees.
  std::int64_t seen_by_last(const PackedSequence& of, const ScoreTile& rows) const {
    return count_seen_keys(attention_, of, rows.row + rows.rows - 1);
  }

  // Calls use(tile) for the tiles of keys that some of these rows see.  Heads begin with different
  // tiles, for the same reason; PEs of one head begin with the same one, if their rows see it, so
  // that it comes from HBM once.  Tiles of which the first row sees nothing are last, so that each
  // row has a score when it comes to keys that are hidden from it.
  template <class Use>
  void for_each_tile_of_keys(const PackedSequence& of, const AttentionShare& share,
                             const ScoreTile& rows, std::int64_t size, const Use& use) const {
    const std::int64_t seen = seen_by_last(of, rows);
    const std::int64_t seen_by_first =  // in tiles
        sim::ceil_divide(count_seen_keys(attention_, of, rows.row), size);
    const std::int64_t start = share.head / 2 % std::max<std::int64_t>(of.key_rows / size / 2, 1);
    for (std::int64_t i = 0; i * size < seen; ++i) {
      const std::int64_t key = (i < seen_by_first ? (i + start) % seen_by_first : i) * size;
      use(ScoreTile{rows.row, rows.rows, key, std::min(size, seen - key)});
    }
  }
  // Calls use(tile) for the tiles of rows that see some of these keys, likewise.
  template <class Use>
  void for_each_tile_of_rows(const PackedSequence& of, std::int64_t head, const ScoreTile& keys,
                             std::int64_t size, const Use& use) const {
    const std::int64_t first =
        (of.query_rows - count_rows_that_see(attention_, of, keys.key)) / size;
    const std::int64_t count = sim::ceil_divide(of.query_rows, size) - first;
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t row = (first + (i + head) % count) * size;
      use(ScoreTile{row, std::min(size, of.query_rows - row), keys.key, keys.keys});
    }
  }

  // Scales products of rows and keys, or of keys and rows, and hides keys that a row does not see.
  tl::Tensor scores(tl::Context& tl, const PackedSequence& of, const ScoreTile& at,
                    const tl::Tensor& products, bool are_rows_first) const;

  tl::Tensor as_factor(tl::Context& tl, const tl::Tensor& x) const { return tl.cast(x, dtype_); }
  double scale() const { return attention_.scale; }

 private:
  PackedAttention attention_;
  PackedRows query_;
  PackedRows key_;
  PackedRows value_;
  DType dtype_;
};

// The gradient's inputs besides query, key and value.
struct GradientRows {
  PackedRows dy;
  PackedRows log_sums;
  PackedRows products;  // of each row and head, the sum of dy times the output
};

}  // namespace kernbench::ops
