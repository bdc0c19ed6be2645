// Implements tl.load and tl.store of tiles, whose rows belong to a wider matrix.

#include "runtime/tl/tl.h"
#include "sim_engine/base/error.h"
#include "sim_engine/components/kernel_run.h"

namespace kernbench::tl {

sim::ElementRange Context::rows_at(std::string_view operation, const Pointer& pointer,
                                   const Shape& shape, DType dtype, std::int64_t pitch) const {
  if (shape.rank() != 2 || (shape[0] > 1 && pitch < shape[1])) {
    throw DeviceError("KB-K032",
                      "{}: rows of {}, {} elements apart; a shape [rows, columns] and a pitch of "
                      "at least the columns are wanted",
                      where(operation), to_string(shape), pitch);
  }
  const bool is_empty = shape[0] == 0 || shape[1] == 0;
  const Extent extent = is_empty ? 0 : Extent{shape[0] - 1} * pitch + shape[1];
  check_access(operation, pointer, extent, dtype);
  return {pointer.offset(), shape[1], shape[0], pitch};
}

Tensor Context::load(const Pointer& source, const Shape& shape, DType dtype, std::int64_t pitch,
                     const LoadOptions& options) {
  const sim::ElementRange rows = rows_at("tl.load", source, shape, dtype, pitch);
  show("tl.load", source, rows, false);
  make_room("tl.load", shape.numel() * size_of(dtype));
  return {*this, shape, run_.load(source.buffer_, rows, options.is_shared), "tl.load"};
}

void Context::store(const Pointer& target, const Tensor& value, std::int64_t pitch) {
  check_own("tl.store", value);
  const sim::ElementRange rows = rows_at("tl.store", target, value.shape(), value.dtype(), pitch);
  check_store("tl.store", target, rows);
  make_room("tl.store", 0);
  run_.store(target.buffer_, rows, value.tile_);
}

}  // namespace kernbench::tl
