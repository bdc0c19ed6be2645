#include "runtime/functional/spread_matrix.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "runtime/functional/matrix_layout.h"
#include "runtime/ops/placement.h"
#include "runtime/tensor/deferred_value.h"
#include "runtime/tensor/tensor_storage.h"

namespace kernbench::ops {

namespace {

int distance(const sim::PeLocation& from, const sim::PeLocation& to) {
  if (from == to) return 0;
  if (from.cube == to.cube) return 1;
  return from.pe == to.pe ? 2 : 3;
}

}  // namespace

std::int64_t rows_per_index(const Shape& shape) {
  std::int64_t rows = 1;
  for (std::size_t d = 1; d + 1 < shape.rank(); ++d) rows *= shape[d];
  return rows;
}

SpreadMatrix::SpreadMatrix(std::string_view name, const Tensor& matrix, bool is_transposed)
    : name_(std::make_shared<const std::string>(matrix.name())) {
  runtime::compute_deferred(*matrix.storage()->memory);  // which gives it its place
  const Placement placement = placement_of(matrix);
  const std::size_t last = matrix.shape().rank() - 1;
  const auto cuts = [&](std::size_t dimension) {
    return placement.cube == cut(dimension) || placement.pe == cut(dimension);
  };
  const auto& shards = matrix.shards();
  const bool is_turned = cuts(last) || std::ranges::any_of(shards, [](const ShardInfo& shard) {
                           return shard.shape.numel() > 0 && make_layout(shard, true)->is_turned;
                         });
  bool has_cut_rows = is_turned && cuts(0);
  for (std::size_t i = 0; i < shards.size(); ++i) {
    if (shards[i].shape.numel() == 0) continue;
    const MatrixLayout layout = *make_layout(shards[i], true, is_turned);
    has_cut_rows = has_cut_rows || layout.is_turned != is_turned;
    pitch_ = std::max(pitch_, layout.pitch);
    held_.push_back(
        {is_turned ? shards[i].offset[last] : shards[i].offset[0] * rows_per_index(matrix.shape()),
         is_turned ? layout.columns : layout.rows,
         {shards[i].sip, shards[i].cube, shards[i].pe},
         {matrix.storage()->buffers()[i], *name_}});
  }
  if (has_cut_rows) {
    refuse_placement(name, matrix,
                     "PEs read rows of each other's memory, and these are cut within");
  }
  is_transposed_ = is_transposed != is_turned;
  std::ranges::stable_sort(held_, {}, &Held::begin);
  has_copies_ = std::ranges::adjacent_find(held_, {}, &Held::begin) != held_.end();
}

SpreadRows SpreadMatrix::rows_for(const sim::PeLocation& pe, std::int64_t begin, std::int64_t end,
                                  std::int64_t column) const {
  SpreadRows rows;
  if (begin == end) return rows;
  auto copies = std::prev(std::ranges::upper_bound(held_, begin, {}, &Held::begin));
  for (std::int64_t row = begin; row < end;) {
    const auto [first, last] = std::ranges::equal_range(held_, copies->begin, {}, &Held::begin);
    const Held& held = *std::ranges::min_element(
        first, last, {}, [&](const Held& copy) { return distance(pe, copy.home); });
    rows.blocks.push_back({row - begin, held.data + (row - held.begin) * pitch_ + column});
    rows.are_own = rows.are_own && held.home == pe;
    row = held.begin + held.count;
    copies = last;
  }
  return rows;
}

OperandRows SpreadMatrix::operand_rows_for(const sim::PeLocation& pe, std::int64_t begin,
                                           std::int64_t end, std::int64_t column) const {
  const auto find = [&](std::int64_t from) -> OperandRows {
    SpreadRows rows = rows_for(pe, begin, end, from);
    const tl::Pointer first = rows.first();
    rows.blocks.erase(rows.blocks.begin());
    return {first, std::move(rows.blocks), rows.are_own};
  };
  if (has_copies_) return find(column);
  const auto [found, is_new] = found_.try_emplace({begin, end});
  if (is_new) found->second = find(0);
  const OperandRows& rows = found->second;
  if (rows.further.empty()) return find(column);  // which may be the PE's own
  return {rows.first + column, rows.further + column, rows.are_own};
}

}  // namespace kernbench::ops
