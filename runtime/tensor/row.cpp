// Rows of a tensor as views: determines which holders have a row, and where.

#include <utility>

#include "runtime/tensor/tensor_storage.h"

namespace kernbench::runtime {

namespace {

Shape row_shape(const Shape& shape) {
  return Shape(shape.sizes().subspan(1));
}

std::shared_ptr<Tensor::Storage> host_row(const Tensor::Storage& base, std::int64_t index) {
  auto row = std::make_shared<Tensor::Storage>();
  row->shape = row_shape(base.shape);
  row->name = base.name;
  row->host = base.host;
  row->first = base.first + index * row->shape.numel();
  return row;
}

// A level of a policy that splits the first dimension has only one holder of a row.
void drop_cut(Shard& shard, int& count, std::size_t rank) {
  if (shard != Shard::row_wise && (shard != Shard::column_wise || rank > 1)) return;
  shard = Shard::replicate;
  count = 1;
}

}  // namespace

Tensor row_of(const Tensor& tensor, std::int64_t index) {
  const Tensor::Storage& base = *tensor.storage();
  if (base.is_host()) return Tensor(host_row(base, index));
  DPPolicy dp = base.dp;
  drop_cut(dp.cube, dp.num_cubes, base.shape.rank());
  drop_cut(dp.pe, dp.num_pes, base.shape.rank());
  std::vector<ShardInfo> shards;
  std::vector<sim::DeviceBuffer> part;
  for (std::size_t i = 0; i < base.shards.size(); ++i) {
    const ShardInfo& whole = base.shards[i];
    const std::int64_t row = index - whole.offset.front();
    // A holder without this row holds no part of the view.
    if (row < 0 || row >= whole.shape[0]) continue;
    const Shape shape = row_shape(whole.shape);
    sim::DeviceBuffer buffer = base.buffers()[i];
    buffer.first += row * shape.numel();
    buffer.element_count = shape.numel();
    ShardInfo shard{whole.sip, whole.cube,
                    whole.pe,  {whole.offset.begin() + 1, whole.offset.end()},
                    shape,     whole.address + row * shape.numel() * size_of(base.dtype)};
    shards.push_back(std::move(shard));
    part.push_back(buffer);
  }
  auto view = make_view_storage(base, row_shape(base.shape), dp, std::move(shards));
  view->first += index * view->shape.numel();
  view->part = std::move(part);
  view->device = view->shards.front().sip;
  return Tensor(std::move(view));
}

}  // namespace kernbench::runtime
