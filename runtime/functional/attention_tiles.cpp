#include "runtime/functional/attention_tiles.h"

#include <limits>

#include "sim_engine/components/kernel_run.h"

namespace kernbench::ops {

namespace {

constexpr std::string_view kName = "varlen_attn";

}  // namespace

// The rows and columns of a tile of scores, as large as scratch allows.
std::int64_t choose_tile(const tl::Context& tl, std::int64_t depth, DType dtype) {
  constexpr std::int64_t kScores = 5;    // tiles of scores in f32 that exist at a time
  constexpr std::int64_t kSums = 3;      // tiles of rows in f32
  constexpr std::int64_t kFactors = 12;  // tiles of rows in the operands' type, three of them ahead
  const Bytes scratch = tl.run().pe().scratch_for_tiles(false);
  const auto fits = [&](std::int64_t tile) {
    const Bytes in_f32 = (kScores * tile + kSums * depth) * tile * size_of(DType::f32);
    return in_f32 + kFactors * depth * tile * size_of(dtype) <= scratch;
  };
  std::int64_t tile = 128;
  while (tile > 1 && !fits(tile)) tile /= 2;
  return tile;
}

AttentionTiles::AttentionTiles(const PackedAttention& attention, const std::vector<Tensor>& query,
                               const std::vector<Tensor>& key, const std::vector<Tensor>& value)
    : attention_(attention),
      query_(kName, query, attention.layout),
      key_(kName, key, attention.layout),
      value_(kName, value, attention.layout),
      dtype_(query.front().dtype()) {}

tl::Tensor AttentionTiles::scores(tl::Context& tl, const PackedSequence& of, const ScoreTile& at,
                                  const tl::Tensor& products, bool are_rows_first) const {
  tl::Tensor scaled = products * attention_.scale;
  if (count_seen_keys(attention_, of, at.row) >= at.key + at.keys) return scaled;
  const std::int64_t last = of.key_rows - of.query_rows + at.row;  // key that the first row sees
  const tl::Tensor seen = tl.arange(last, last + at.rows);
  const tl::Tensor keys = tl.arange(at.key, at.key + at.keys);
  const tl::Tensor mask = are_rows_first ? keys <= tl.reshape(seen, {at.rows, 1})
                                         : tl.reshape(keys, {at.keys, 1}) <= seen;
  return tl.where(mask, scaled, -std::numeric_limits<double>::infinity());
}

}  // namespace kernbench::ops
