// Implements tl.index_select and tl.index_add.

#include <vector>

#include "runtime/tl/tl.h"
#include "sim_engine/components/kernel_run.h"

namespace kernbench::tl {

std::vector<sim::HbmPart> Context::parts_of(std::string_view operation,
                                            const RowsInBlocks& rows) const {
  std::vector<sim::HbmPart> parts;
  rows.for_each([&](const Pointer& pointer, std::int64_t, std::int64_t height) {
    const std::int64_t count = height * rows.columns;
    check_access(operation, pointer, count, pointer.dtype());
    show(operation, pointer, {pointer.offset(), count}, false);
    parts.push_back({pointer.buffer_, {pointer.offset(), count}});
  });
  return parts;
}

Tensor Context::index_select(const RowsInBlocks& matrix, const Tensor& indices,
                             std::int64_t first) {
  constexpr std::string_view operation = "tl.index_select";
  check_own(operation, indices);
  const std::vector<sim::HbmPart> parts = parts_of(operation, matrix);
  const Shape shape{indices.shape().numel(), matrix.columns};
  if (shape.numel() == 0) return zeros(shape, parts.front().buffer.dtype);
  make_room(operation, shape.numel() * size_of(parts.front().buffer.dtype));
  return {*this, shape,
          run_.index_select(parts, indices.tile_, {first, matrix.count, matrix.columns}),
          operation};
}

Tensor Context::index_add(const RowsInBlocks& added, const Tensor& indices, std::int64_t first,
                          std::int64_t rows, std::int64_t expected) {
  constexpr std::string_view operation = "tl.index_add";
  check_own(operation, indices);
  const std::vector<sim::HbmPart> parts = parts_of(operation, added);
  const Shape shape{rows, added.columns};
  make_room(operation, shape.numel() * size_of(DType::f32) +
                           expected * added.columns * size_of(parts.front().buffer.dtype));
  return {*this, shape,
          run_.index_add(parts, indices.tile_, {first, rows, added.columns}, expected), operation};
}

}  // namespace kernbench::tl
