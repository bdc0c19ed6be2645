#include "runtime/tensor/strided_view.h"

#include <algorithm>
#include <utility>

#include "runtime/tensor/describe.h"
#include "runtime/tensor/tensor_storage.h"
#include "sim_engine/base/error.h"

namespace kernbench::runtime {

namespace {

bool are_dense(const Shape& shape, const std::vector<std::int64_t>& strides) {
  const std::vector<std::int64_t> dense = dense_strides(shape);
  for (std::size_t d = 0; d < shape.rank(); ++d) {
    if (shape[d] != 1 && strides[d] != dense[d]) return shape.numel() == 0;
  }
  return true;
}

// True if each holder has the whole memory, and in it all elements of the view row by row.
bool is_dense_part(const TensorMemory& memory, const std::vector<ShardInfo>& shards,
                   const Shape& shape) {
  return memory.buffers.front().element_count == memory.element_count &&
         std::ranges::all_of(shards, [&](const ShardInfo& shard) {
           return shard.shape == shape && are_dense(shape, shard.strides);
         });
}

// Counts the elements of the memory from the first to the last one of the view, both included.
std::int64_t compute_extent(const PartOfView& part) {
  if (part.shape.numel() == 0) return 0;
  std::int64_t last = 0;
  for (std::size_t d = 0; d < part.shape.rank(); ++d) {
    last += (part.shape[d] - 1) * part.strides[d];
  }
  return last + 1;
}

}  // namespace

std::vector<std::int64_t> dense_strides(const Shape& shape) {
  std::vector<std::int64_t> strides(shape.rank(), 1);
  for (std::size_t d = shape.rank(); d-- > 1;) strides[d - 1] = strides[d] * shape[d];
  return strides;
}

std::vector<std::int64_t> strides_of(const ShardInfo& shard) {
  return shard.strides.empty() ? dense_strides(shard.shape) : shard.strides;
}

Tensor strided_view(const Tensor& of, const Shape& shape, const DPPolicy& dp,
                    const std::function<PartOfView(const ShardInfo& of_base)>& part_of) {
  const Tensor::Storage& base = *of.storage();
  std::vector<ShardInfo> shards;
  std::vector<sim::DeviceBuffer> buffers;
  bool is_dense = base.span == 0 && shape.numel() == base.shape.numel();
  for (std::size_t i = 0; i < base.shards.size(); ++i) {
    const ShardInfo& whole = base.shards[i];
    PartOfView part = part_of(whole);
    sim::DeviceBuffer& buffer = buffers.emplace_back(base.buffers()[i]);
    buffer.element_count = compute_extent(part);
    if (buffer.element_count == 0) part.first = 0;  // the memory may have no element there
    buffer.first += part.first;
    is_dense = is_dense && part.first == 0 && are_dense(part.shape, part.strides);
    shards.push_back({whole.sip, whole.cube, whole.pe, std::move(part.offset), part.shape,
                      whole.address + part.first * size_of(base.dtype), std::move(part.strides)});
  }
  if (is_dense) {
    for (ShardInfo& shard : shards) shard.strides.clear();
    return Tensor(make_view_storage(base, shape, dp, std::move(shards)));
  }
  const bool is_part = shape.numel() == 0 || is_dense_part(*base.memory, shards, shape);
  if (is_part) {
    for (ShardInfo& shard : shards) shard.strides.clear();
  }
  auto view = make_view_storage(base, shape, dp, std::move(shards));
  // A place in the whole memory is the same for every holder.
  if (is_part && shape.numel() > 0) view->first = buffers.front().first;
  view->part = std::move(buffers);
  view->span = is_part ? 0 : base.elements().count();
  return Tensor(std::move(view));
}

Tensor stepped_view(const Tensor& base, const Steps& steps) {
  if ((steps.step == 1 || steps.length <= 1) && has_stretches(base, steps.dimension)) {
    return make_stretch_view(base, steps.dimension, steps.start, steps.length);
  }
  const auto shortened = [&](const Shape& shape) {
    std::vector<std::int64_t> sizes(shape.begin(), shape.end());
    sizes[steps.dimension] = steps.length;
    return Shape(sizes);
  };
  return strided_view(base, shortened(base.shape()), base.dp(), [&](const ShardInfo& shard) {
    PartOfView part{shard.offset, shortened(shard.shape), strides_of(shard)};
    part.first = steps.start * part.strides[steps.dimension];
    part.strides[steps.dimension] *= steps.step;
    return part;
  });
}

bool is_strided(const Tensor& tensor) {
  return tensor.storage()->span > 0;
}

bool repeats_along(const Tensor& tensor, std::size_t dimension) {
  return is_strided(tensor) && std::ranges::any_of(tensor.shards(), [&](const ShardInfo& shard) {
           return shard.shape[dimension] > 1 && shard.shape.numel() > 0 &&
                  strides_of(shard)[dimension] == 0;
         });
}

bool repeats_elements(const Tensor& tensor) {
  for (std::size_t d = 0; d < tensor.shape().rank(); ++d) {
    if (repeats_along(tensor, d)) return true;
  }
  return false;
}

void check_is_contiguous(const Tensor& tensor, std::string_view user) {
  if (!is_strided(tensor)) return;
  throw DeviceError("KB-F005",
                    "{}: Tensors must be contiguous: {} is a view whose elements lie apart; use "
                    "its contiguous(), or copy_ that back afterwards",
                    user, describe(tensor));
}

}  // namespace kernbench::runtime
