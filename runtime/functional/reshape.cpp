#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "runtime/autograd/autograd.h"
#include "runtime/functional/shape_operators.h"
#include "runtime/functional/views.h"
#include "runtime/ops/device_kernel.h"
#include "runtime/tensor/strided_view.h"
#include "runtime/tensor/tensor_storage.h"
#include "sim_engine/values/element_range.h"

namespace kernbench {

namespace {

// Returns a holder's elements, numbered row by row.  They form a rectangle, since only the first
// and the last dimension can be cut.
sim::ElementRange to_element_range(const Shape& shape, const ShardInfo& shard) {
  const std::size_t rank = shape.rank();
  if (rank == 0) return {0, 1};
  const std::int64_t width = shard.shape[rank - 1];
  const std::int64_t count = shard.shape.numel();
  if (count == 0) return {};
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < rank; ++i) begin = begin * shape[i] + shard.offset[i];
  return sim::ElementRange{begin, width, count / width, shape[rank - 1]}.simplified();
}

bool have_the_same(const Shape& shape, const std::vector<ShardInfo>& shards, const Shape& new_shape,
                   const std::vector<ShardInfo>& new_shards) {
  for (std::size_t i = 0; i < shards.size(); ++i) {
    if (to_element_range(shape, shards[i]) != to_element_range(new_shape, new_shards[i]))
      return false;
  }
  return true;
}

struct NewPlace {
  DPPolicy dp;
  std::vector<ShardInfo> shards;
};

// The ways in which a level may be cut in the new shape, the wanted one first.
std::vector<Shard> choices(Shard shard, Shard wanted) {
  if (!is_sharded(shard)) return {shard};
  const Shard first = is_sharded(wanted) ? wanted : shard;
  return {first, first == Shard::row_wise ? Shard::column_wise : Shard::row_wise};
}

// Finds a placement in the new shape that leaves each holder its elements.  A cut into rows may
// become one into columns, and the reverse; if both fit, as for a single row, `wanted` decides.
std::optional<NewPlace> place_of_view(const Tensor& x, const Shape& shape, const DPPolicy& wanted) {
  const Topology& topology = x.storage()->simulation->machine().topology();
  for (const Shard cube : choices(x.dp().cube, wanted.cube)) {
    for (const Shard pe : choices(x.dp().pe, wanted.pe)) {
      DPPolicy dp = x.dp();
      dp.cube = cube;
      dp.pe = pe;
      std::vector<ShardInfo> shards = place(dp, shape, topology, x.device());
      if (!have_the_same(x.shape(), x.shards(), shape, shards)) continue;
      for (std::size_t i = 0; i < shards.size(); ++i) shards[i].address = x.shards()[i].address;
      return NewPlace{dp, std::move(shards)};
    }
  }
  return std::nullopt;
}

[[noreturn]] void refuse_view(const Tensor& x, const Shape& shape) {
  ops::refuse_placement(
      "reshape", x,
      fmt::format("as {} its holders would have other elements than now; keep the dimension that "
                  "is cut, or split_heads() and merge_heads() it",
                  to_string(shape)));
}

}  // namespace

Tensor ops::viewed(const Tensor& x, const Shape& shape, const DPPolicy& wanted) {
  auto placed = place_of_view(x, shape, wanted);
  if (!placed) refuse_view(x, shape);
  return Tensor(
      runtime::make_view_storage(*x.storage(), shape, placed->dp, std::move(placed->shards)));
}

Tensor reshape(const Tensor& operand, const Shape& shape) {
  ops::check_operands("reshape", {operand}, ops::Types::any);
  const Tensor x = contiguous(operand);
  if (shape.numel() != x.numel()) {
    ops::refuse_shapes("reshape", fmt::format("shape '{}' is invalid for input of size {}",
                                              to_string(shape), x.numel()));
  }
  return autograd::record_view(
      "reshape", ops::viewed(x, shape, x.dp()), x,
      [shape, dp = x.dp()](const Tensor& of) { return ops::viewed(of, shape, dp); },
      [shape = x.shape(), dp = x.dp()](const Tensor& dy) { return ops::viewed(dy, shape, dp); });
}

namespace {

// Returns x's shape as these sizes, of which -1 stands for the one that is left.
Shape inferred_shape(const Tensor& x, std::initializer_list<std::int64_t> sizes) {
  std::vector<std::int64_t> known(sizes);
  std::int64_t* open = nullptr;
  std::int64_t product = 1;
  for (std::int64_t& size : known) {
    if (size != -1) {
      product *= size;
    } else if (open != nullptr) {
      ops::refuse_shapes("reshape", "only one dimension can be inferred");
    } else {
      open = &size;
    }
  }
  if (open != nullptr) {
    if (product <= 0 || x.numel() % product != 0) {
      ops::refuse_shapes("reshape", fmt::format("shape '[{}]' is invalid for input of size {}",
                                                fmt::join(sizes, ", "), x.numel()));
    }
    *open = x.numel() / product;
  }
  return Shape(known);
}

// Returns the strides with which `shape` has the elements of `of` in their order; none if there are
// none (at::detail::computeStride).
std::optional<std::vector<std::int64_t>> strides_as(const Shape& shape, const Shape& of,
                                                    const std::vector<std::int64_t>& strides) {
  std::vector<std::int64_t> result = runtime::dense_strides(shape);
  if (of.numel() == 0) return result;
  std::size_t open = shape.rank();  // dimensions whose strides are not known yet
  std::int64_t chunk = 1;           // elements that lie evenly apart, up to this dimension
  std::int64_t base = strides.empty() ? 1 : strides.back();
  for (std::size_t d = of.rank(); d-- > 0;) {
    chunk *= of[d];
    if (d > 0 && (of[d - 1] == 1 || strides[d - 1] == chunk * base)) continue;
    std::int64_t covered = 1;
    while (open > 0 && (covered < chunk || shape[open - 1] == 1)) {
      --open;
      result[open] = covered * base;
      covered *= shape[open];
    }
    if (covered != chunk) return std::nullopt;
    if (d > 0) base = strides[d - 1];
    chunk = 1;
  }
  return result;
}

Tensor viewed_apart(const Tensor& x, const Shape& shape) {
  const auto placed = place_of_view(x, shape, x.dp());
  if (!placed) refuse_view(x, shape);
  auto part = placed->shards.begin();
  return runtime::strided_view(x, shape, placed->dp, [&](const ShardInfo& shard) {
    const ShardInfo& of_view = *part++;
    const auto strides = strides_as(of_view.shape, shard.shape, runtime::strides_of(shard));
    if (!strides) {
      ops::refuse_shapes("view",
                         "view size is not compatible with input tensor's size and stride (at "
                         "least one dimension spans across two contiguous subspaces). Use "
                         ".reshape(...) instead.");
    }
    return runtime::PartOfView{of_view.offset, of_view.shape, *strides};
  });
}

}  // namespace

Tensor reshape(const Tensor& x, std::initializer_list<std::int64_t> sizes) {
  return reshape(x, inferred_shape(x, sizes));
}

Tensor view(const Tensor& x, const Shape& shape) {
  ops::check_operands("view", {x}, ops::Types::any);
  if (!runtime::is_strided(x) || shape.numel() != x.numel()) return reshape(x, shape);
  return autograd::record_view(
      "view", viewed_apart(x, shape), x,
      [shape](const Tensor& of) { return viewed_apart(of, shape); },
      [shape = x.shape(), dp = x.dp()](const Tensor& dy) { return ops::viewed(dy, shape, dp); });
}

Tensor view(const Tensor& x, std::initializer_list<std::int64_t> sizes) {
  return view(x, inferred_shape(x, sizes));
}

Tensor flatten(const Tensor& x, int start_dim, int end_dim) {
  if (x.dim() == 0) return reshape(x, {1});
  const std::size_t start = ops::wrap_dimension("flatten", x, start_dim);
  const std::size_t end = ops::wrap_dimension("flatten", x, end_dim);
  if (start > end) ops::refuse_shapes("flatten", "start_dim cannot come after end_dim");
  std::vector<std::int64_t> sizes;
  for (std::size_t d = 0; d < x.shape().rank(); ++d) {
    const bool is_merged = d > start && d <= end;
    is_merged ? void(sizes.back() *= x.shape()[d]) : sizes.push_back(x.shape()[d]);
  }
  return reshape(x, Shape(sizes));
}

Tensor squeeze(const Tensor& x) {
  if (x.defined() && !x.is_host() && runtime::is_strided(x)) {
    Tensor y = x;
    for (int d = static_cast<int>(x.dim()) - 1; d >= 0; --d) y = squeeze(y, d);
    return y;
  }
  std::vector<std::int64_t> sizes(x.shape().begin(), x.shape().end());
  std::erase(sizes, 1);
  return reshape(x, Shape(sizes));
}

Tensor repeat(const Tensor& x, const std::vector<std::int64_t>& times) {
  if (std::ssize(times) < x.dim()) {
    ops::refuse_shapes("repeat",
                       "Number of dimensions of repeat dims can not be smaller than "
                       "number of dimensions of tensor");
  }
  Tensor y = x;
  while (y.dim() < std::ssize(times)) y = unsqueeze(y, 0);
  for (std::size_t d = 0; d < times.size(); ++d) {
    if (times[d] < 1) ops::refuse_shapes("repeat", "Trying to create tensor with no repetition");
    if (times[d] == 1) continue;
    y = cat(std::vector(static_cast<std::size_t>(times[d]), y), static_cast<int>(d));
  }
  return y;
}

Tensor unflatten(const Tensor& x, int dim, const std::vector<std::int64_t>& sizes) {
  ops::check_operands("unflatten", {x}, ops::Types::any);
  const auto at = static_cast<std::ptrdiff_t>(ops::wrap_dimension("unflatten", x, dim));
  std::vector<std::int64_t> all(x.shape().begin(), x.shape().end());
  std::vector<std::int64_t> parts = sizes;
  std::int64_t known = 1;
  for (const std::int64_t size : parts) known *= size == -1 ? 1 : size;
  std::ranges::replace(parts, -1, known > 0 ? all[static_cast<std::size_t>(at)] / known : 0);
  all.insert(all.erase(all.begin() + at), parts.begin(), parts.end());
  return reshape(x, Shape(all));
}

}  // namespace kernbench
