#include "runtime/functional/attention_team_tiles.h"

#include <algorithm>

#include "sim_engine/base/ceil_divide.h"
#include "sim_engine/components/processing_element.h"

namespace kernbench::ops {

TeamTiles choose_team_tiles(sim::Machine& machine, const std::vector<sim::PeLocation>& members,
                            const PackedAttention& attention, DType dtype) {
  constexpr std::int64_t kScores = 5;  // tiles of scores in f32 that exist at a time
  constexpr std::int64_t kRows = 7;    // blocks of rows in the operands' type, some of them ahead
  constexpr std::int64_t kSums = 5;    // blocks of rows in f32
  const std::int64_t depth = attention.depth;
  Bytes scratch = machine.topology().pe.tcm.capacity;
  for (const sim::PeLocation& member : members) {
    scratch = std::min(scratch, machine.pe(member).scratch_for_tiles(false));
  }
  const auto fits = [&](std::int64_t tile, std::int64_t keys) {
    const Bytes f32 = size_of(DType::f32);
    const Bytes of_rows = tile * depth * (kRows * size_of(dtype) + kSums * f32);
    const Bytes of_keys = 2 * keys * depth * (size_of(dtype) + f32);
    return kScores * tile * tile * f32 + of_rows + of_keys <= scratch;
  };
  std::int64_t tile = 128;
  std::int64_t keys = 4 * tile;
  while (tile > 1 && !fits(tile, keys)) {
    if (keys == tile) tile /= 2;
    keys /= 2;
  }
  const std::int64_t key_rows = std::max<std::int64_t>(attention.sequences.front().key_rows, 1);
  const std::int64_t most = std::min<std::int64_t>(machine.topology().pe.gemm.rows, tile);
  const std::int64_t stripe = std::min(most, sim::ceil_divide(key_rows, std::ssize(members)));
  const std::int64_t stripes = sim::ceil_divide(key_rows, stripe * std::ssize(members));
  const std::int64_t passes = sim::ceil_divide(stripes, std::max<std::int64_t>(keys / stripe, 1));
  return {tile, stripe, std::max<std::int64_t>(tile / stripe, 1),
          sim::ceil_divide(stripes, passes)};
}

}  // namespace kernbench::ops
