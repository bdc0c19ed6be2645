#include "runtime/functional/matrix_layout.h"

#include "runtime/tensor/strided_view.h"

namespace kernbench::ops {

namespace {

// Returns all dimensions but the last as one; nullopt if their elements are not equally far apart.
std::optional<BatchLoop> merge_rows(const std::vector<BatchLoop>& loops) {
  BatchLoop rows;
  for (std::size_t i = loops.size() - 1; i-- > 0;) {
    if (loops[i].size == 1) continue;
    if (rows.size > 1 && loops[i].stride != rows.size * rows.stride) return std::nullopt;
    if (rows.size == 1) rows.stride = loops[i].stride;
    rows.size *= loops[i].size;
  }
  return rows;
}

}  // namespace

std::int64_t MatrixLayout::count() const {
  std::int64_t count = 1;
  for (const BatchLoop& loop : batch) count *= loop.size;
  return count;
}

std::int64_t MatrixLayout::find_begin(std::int64_t index) const {
  std::int64_t begin = 0;
  for (std::size_t i = batch.size(); i-- > 0; index /= batch[i].size) {
    begin += index % batch[i].size * batch[i].stride;
  }
  return begin;
}

std::optional<MatrixLayout> make_layout(const ShardInfo& shard, bool is_folded,
                                        bool prefers_turned) {
  const std::vector<std::int64_t> strides = runtime::strides_of(shard);
  std::vector<BatchLoop> loops;
  for (std::size_t d = 0; d < strides.size(); ++d) loops.push_back({shard.shape[d], strides[d]});
  MatrixLayout layout;
  const BatchLoop columns = loops.back();
  const auto rows = is_folded ? merge_rows(loops) : std::optional(loops[loops.size() - 2]);
  if (!rows) return std::nullopt;
  if (!is_folded) layout.batch.assign(loops.begin(), loops.end() - 2);
  layout.rows = rows->size;
  layout.columns = columns.size;
  const auto are_stretches = [](const BatchLoop& outer, const BatchLoop& inner) {
    return (inner.stride == 1 || inner.size <= 1) &&
           (outer.stride >= inner.size || outer.size <= 1);
  };
  const bool has_rows = are_stretches(*rows, columns);
  const bool has_columns = are_stretches(columns, *rows);
  if (!has_rows && !has_columns) return std::nullopt;
  layout.is_turned = has_columns && (prefers_turned || !has_rows);
  const BatchLoop& outer = layout.is_turned ? columns : *rows;
  const BatchLoop& inner = layout.is_turned ? *rows : columns;
  layout.pitch = outer.size <= 1 ? inner.size : outer.stride;
  return layout;
}

}  // namespace kernbench::ops
