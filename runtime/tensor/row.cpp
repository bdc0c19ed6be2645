// Rows and other parts of a tensor as views: determines which holders have a part, and where.

#include <algorithm>
#include <utility>

#include "runtime/tensor/strided_view.h"
#include "runtime/tensor/tensor_storage.h"

namespace kernbench::runtime {

namespace {

Shape row_shape(const Shape& shape) {
  return Shape(shape.sizes().subspan(1));
}

std::shared_ptr<Tensor::Storage> host_row(const Tensor::Storage& base, std::int64_t index) {
  auto row = std::make_shared<Tensor::Storage>();
  row->shape = row_shape(base.shape);
  row->dtype = base.dtype;
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

// Returns the elements of a buffer from `first` on, which belong to a part of its tensor.  A part
// without elements begins where the buffer does: the memory may have none at its own place.
sim::DeviceBuffer cut_slice(sim::DeviceBuffer buffer, std::int64_t first, std::int64_t count) {
  if (count > 0) buffer.first += first;
  buffer.element_count = count;
  return buffer;
}

}  // namespace

Tensor make_row_view(const Tensor& tensor, std::int64_t index) {
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
    ShardInfo shard{whole.sip, whole.cube,
                    whole.pe,  {whole.offset.begin() + 1, whole.offset.end()},
                    shape,     whole.address + row * shape.numel() * size_of(base.dtype)};
    shards.push_back(std::move(shard));
    part.push_back(cut_slice(base.buffers()[i], row * shape.numel(), shape.numel()));
  }
  auto view = make_view_storage(base, row_shape(base.shape), dp, std::move(shards));
  view->first += index * view->shape.numel();
  view->part = std::move(part);
  view->device = view->shards.front().sip;
  return Tensor(std::move(view));
}

bool has_stretches(const Tensor& tensor, std::size_t dimension) {
  if (is_strided(tensor)) return false;
  const auto before = tensor.shape().sizes().first(dimension);
  return std::ranges::all_of(before, [](std::int64_t size) { return size == 1; });
}

Tensor make_stretch_view(const Tensor& tensor, std::size_t dimension, std::int64_t start,
                         std::int64_t length) {
  const Tensor::Storage& base = *tensor.storage();
  const auto shortened = [&](const Shape& shape) {
    std::vector<std::int64_t> sizes(shape.begin(), shape.end());
    sizes[dimension] = length;
    return Shape(sizes);
  };
  std::vector<ShardInfo> shards = base.shards;
  if (length == base.shape[dimension]) {
    return Tensor(make_view_storage(base, base.shape, base.dp, std::move(shards)));
  }
  const auto first_of = [&](const Shape& shape) {
    return start * (shape.numel() / shape[dimension]);
  };
  std::vector<sim::DeviceBuffer> part;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const std::int64_t first = first_of(shards[i].shape);
    shards[i].shape = shortened(shards[i].shape);
    shards[i].address += first * size_of(base.dtype);
    part.push_back(cut_slice(base.buffers()[i], first, shards[i].shape.numel()));
  }
  auto view = make_view_storage(base, shortened(base.shape), base.dp, std::move(shards));
  view->first += first_of(base.shape);
  view->part = std::move(part);
  return Tensor(std::move(view));
}

}  // namespace kernbench::runtime
