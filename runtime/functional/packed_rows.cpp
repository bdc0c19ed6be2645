#include "runtime/functional/packed_rows.h"

#include <algorithm>

#include "runtime/functional/shape_operators.h"

namespace kernbench::ops {

PackedRows::PackedRows(std::string_view name, const std::vector<Tensor>& parts,
                       const PackedLayout& layout)
    : layout_(layout),
      columns_(parts.front().dim() == 3 ? parts.front().size(-1) : 1),
      dtype_(parts.front().dtype()),
      heads_(layout.are_heads_rows ? parts.front().size(0) / (layout.batches * layout.rows) : 1) {
  for (const Tensor& part : parts) {
    matrices_.emplace_back(name, reshape(part.detach(), {part.size(0), part.size(1) * columns_}));
  }
}

std::vector<PackedRows::Run> PackedRows::find_runs(std::int64_t first, std::int64_t count,
                                                   std::int64_t head) const {
  if (layout_.rows == 0) return {{matrices_.front(), first, count, head * columns_}};
  const std::int64_t of_sequence = layout_.rows * std::ssize(matrices_);
  const std::int64_t batch = first / of_sequence;
  const std::int64_t block = layout_.are_heads_rows ? batch * heads_ + head : batch;
  const std::int64_t column = layout_.are_heads_rows ? 0 : head * columns_;
  const std::int64_t end = first % of_sequence + count;
  std::vector<Run> runs;
  for (std::int64_t row = first % of_sequence; row < end;) {
    const std::int64_t part = row / layout_.rows;
    const std::int64_t until = std::min(end, (part + 1) * layout_.rows);
    runs.push_back({matrices_[static_cast<std::size_t>(part)],
                    block * layout_.rows + row % layout_.rows, until - row, column});
    row = until;
  }
  return runs;
}

template <class Visit>
void PackedRows::for_each_block_of(const tl::Context& tl, std::int64_t first, std::int64_t count,
                                   std::int64_t head, const Visit& visit) const {
  std::int64_t done = 0;
  for (const Run& run : find_runs(first, count, head)) {
    const tl::RowsInBlocks rows{
        run.matrix.rows_for(tl.location(), run.first, run.first + run.count, run.column).blocks,
        run.count, columns_};
    rows.for_each([&](const tl::Pointer& at, std::int64_t begin, std::int64_t height) {
      visit(run.matrix, at, done + begin, height);
    });
    done += run.count;
  }
}

tl::Tensor PackedRows::load(tl::Context& tl, std::int64_t first, std::int64_t count,
                            std::int64_t head, const tl::LoadOptions& options) const {
  std::vector<tl::Tensor> parts;
  for_each_block_of(
      tl, first, count, head,
      [&](const SpreadMatrix& matrix, const tl::Pointer& at, std::int64_t, std::int64_t rows) {
        const tl::Tensor part = tl.load(at, {rows, columns_}, dtype_, matrix.pitch(), options);
        parts.push_back(tl.reshape(part, {rows * columns_}));
      });
  return tl.reshape(tl.cat(parts), {count, columns_});
}

void PackedRows::store(tl::Context& tl, std::int64_t first, std::int64_t head,
                       const tl::Tensor& rows) const {
  const tl::Tensor value = tl.cast(rows, dtype_);
  const std::int64_t count = value.shape()[0];
  const tl::Tensor elements = tl.reshape(value, {count * columns_});
  for_each_block_of(tl, first, count, head,
                    [&](const SpreadMatrix& matrix, const tl::Pointer& at, std::int64_t begin,
                        std::int64_t height) {
                      const tl::Tensor part =
                          tl.narrow(elements, begin * columns_, height * columns_);
                      tl.store(at, tl.reshape(part, {height, columns_}), matrix.pitch());
                    });
}

}  // namespace kernbench::ops
