#include "runtime/functional/packed_rows.h"

#include <vector>

#include "runtime/functional/shape_operators.h"

namespace kernbench::ops {

PackedRows::PackedRows(std::string_view name, const Tensor& packed)
    : columns_(packed.dim() == 3 ? packed.size(-1) : 1),
      dtype_(packed.dtype()),
      matrix_(name, reshape(packed.detach(), {packed.size(0), packed.size(1) * columns_})) {}

tl::RowsInBlocks PackedRows::find(const tl::Context& tl, std::int64_t first, std::int64_t count,
                                  std::int64_t head) const {
  return {matrix_.rows_for(tl.location(), first, first + count, head * columns_).blocks, count,
          columns_};
}

tl::Tensor PackedRows::load(tl::Context& tl, std::int64_t first, std::int64_t count,
                            std::int64_t head, const tl::LoadOptions& options) const {
  std::vector<tl::Tensor> parts;
  const auto load_part = [&](const tl::Pointer& at, std::int64_t, std::int64_t rows) {
    const tl::Tensor part = tl.load(at, {rows, columns_}, dtype_, matrix_.pitch(), options);
    parts.push_back(tl.reshape(part, {rows * columns_}));
  };
  find(tl, first, count, head).for_each(load_part);
  return tl.reshape(tl.cat(parts), {count, columns_});
}

void PackedRows::store(tl::Context& tl, std::int64_t first, std::int64_t head,
                       const tl::Tensor& rows) const {
  const tl::Tensor value = tl.cast(rows, dtype_);
  const std::int64_t count = value.shape()[0];
  const tl::Tensor elements = tl.reshape(value, {count * columns_});
  const auto store_part = [&](const tl::Pointer& at, std::int64_t begin, std::int64_t height) {
    const tl::Tensor part = tl.narrow(elements, begin * columns_, height * columns_);
    tl.store(at, tl.reshape(part, {height, columns_}), matrix_.pitch());
  };
  find(tl, first, count, head).for_each(store_part);
}

}  // namespace kernbench::ops
