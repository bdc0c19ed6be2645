#include "tp/primitives.h"

#include <fmt/format.h>

#include <numeric>
#include <vector>

#include "runtime/autograd/autograd.h"
#include "runtime/functional/shape_operators.h"
#include "runtime/ops/device_kernel.h"
#include "runtime/ops/pieces.h"
#include "runtime/ops/redistribute.h"
#include "tp/misuse.h"
#include "tp/parameter.h"
#include "tp/slices.h"

namespace kernbench::tp {

namespace {

// True if nothing has to be done: the group has one rank, and x is not partial.
bool is_whole(RuntimeContext& torch, const Tensor& x, const CallGroup& group) {
  return torch.distributed.get_world_size(group.group) == 1 && !ops::placement_of(x).is_partial();
}

std::size_t last_dim(const Tensor& x) {
  return x.shape().rank() - 1;
}

// An empty tensor with x's type and placement but another shape; replicated where x is partial.
Tensor result_like(const Tensor& x, std::string_view name, const Shape& shape) {
  return ops::make_like(x, name, shape, x.dtype(), ops::gradient_placement(ops::placement_of(x)));
}

std::int64_t part_of_first_dim(const Tensor& x, int world_size) {
  if (x.shape()[0] % world_size != 0) {
    not_divisible(
        fmt::format("First dimension of the tensor should be divisible by tensor "
                    "parallel size: '{}' is {}, and there are {} ranks",
                    x.name(), to_string(x.shape()), world_size));
  }
  return x.shape()[0] / world_size;
}

// The parts of x along its last dimension, one for each rank.
std::vector<Tensor> parts_along_last_dim(const Tensor& x, int world_size) {
  const std::int64_t size = divide(x.shape()[last_dim(x)], world_size);
  std::vector<Tensor> parts;
  for (int rank = 0; rank < world_size; ++rank) {
    parts.push_back(slice(x, last_dim(x), rank * size, size, ops::placement_of(x)));
  }
  return parts;
}

}  // namespace

Tensor reduce(RuntimeContext& torch, const Tensor& x, const CallGroup& group) {
  const Tensor own = x;  // a second handle: x keeps its elements
  return reduce_consumed(torch, own, group, Issue::blocking).tensor;
}

Pending reduce_consumed(RuntimeContext& torch, const Tensor& x, const CallGroup& group,
                        Issue issue) {
  if (is_whole(torch, x, group)) return {x};
  const Tensor sum = autograd::writable(x);
  return {sum, torch.distributed.all_reduce(sum, ReduceOp::sum,
                                            {group.group, issue == Issue::async}, group.location)};
}

Tensor split_along_first_dim(RuntimeContext& torch, const Tensor& x, const CallGroup& group) {
  const int world_size = torch.distributed.get_world_size(group.group);
  if (world_size == 1) return x;
  const std::int64_t size = part_of_first_dim(x, world_size);
  const std::int64_t begin = torch.distributed.get_rank(group.group) * size;
  const ops::Placement placement = ops::placement_of(x);
  const bool must_move = placement.cube == ops::cut(0) || placement.pe == ops::cut(0);
  if (!must_move) return slice(x, 0, begin, size, placement);
  return ops::redistributed_rows(x, begin, size, ops::gradient_placement(placement));
}

Tensor split_along_last_dim(RuntimeContext& torch, const Tensor& x, const CallGroup& group) {
  const int world_size = torch.distributed.get_world_size(group.group);
  if (world_size == 1) return x;
  const std::int64_t size = divide(x.shape()[last_dim(x)], world_size);
  const int rank = torch.distributed.get_rank(group.group);
  return slice(x, last_dim(x), rank * size, size, ops::placement_of(x));
}

Tensor gather_along_first_dim(RuntimeContext& torch, const Tensor& x, const CallGroup& group) {
  return gather_along_first_dim(torch, x, group, Issue::blocking).tensor;
}

Pending gather_along_first_dim(RuntimeContext& torch, const Tensor& x, const CallGroup& group,
                               Issue issue) {
  if (is_whole(torch, x, group)) return {x};
  const int world_size = torch.distributed.get_world_size(group.group);
  const Tensor all =
      result_like(x, "gather", ops::with_size(x.shape(), 0, x.shape()[0] * world_size));
  return {all, torch.distributed.all_gather_into_tensor(
                   all, x, {group.group, issue == Issue::async}, group.location)};
}

Tensor gather_whole_along_first_dim(RuntimeContext& torch, const Tensor& x,
                                    const CallGroup& group) {
  const int world_size = torch.distributed.get_world_size(group.group);
  const ops::Placement placement = uncut_along(x, 0);
  if (world_size == 1 && placement == ops::placement_of(x)) return x;
  const Tensor all = ops::make_like(
      x, "gather", ops::with_size(x.shape(), 0, x.shape()[0] * world_size), x.dtype(), placement);
  torch.distributed.all_gather_into_tensor(all, x, {group.group}, group.location);
  return all;
}

Tensor gather_along_last_dim(RuntimeContext& torch, const Tensor& x, const CallGroup& group) {
  const int world_size = torch.distributed.get_world_size(group.group);
  const ops::Placement placement = uncut_along(x, last_dim(x));
  if (world_size == 1 && placement == ops::placement_of(x)) return x;
  std::vector<Tensor> parts;
  for (int rank = 0; rank < world_size; ++rank) {
    parts.push_back(ops::make_like(x, "gather", x.shape(), x.dtype(), placement));
  }
  torch.distributed.all_gather(parts, x, {group.group}, group.location);
  return world_size == 1 ? parts.front() : cat(parts, -1);
}

Tensor reduce_scatter_along_first_dim(RuntimeContext& torch, const Tensor& x,
                                      const CallGroup& group) {
  return reduce_scatter_along_first_dim(torch, x, group, Issue::blocking).tensor;
}

Pending reduce_scatter_along_first_dim(RuntimeContext& torch, const Tensor& x,
                                       const CallGroup& group, Issue issue) {
  if (is_whole(torch, x, group)) return {x};
  const int world_size = torch.distributed.get_world_size(group.group);
  const Tensor part = result_like(x, "reduce_scatter",
                                  ops::with_size(x.shape(), 0, part_of_first_dim(x, world_size)));
  return {part, torch.distributed.reduce_scatter_tensor(
                    part, x, ReduceOp::sum, {group.group, issue == Issue::async}, group.location)};
}

Tensor reduce_scatter_along_last_dim(RuntimeContext& torch, const Tensor& x,
                                     const CallGroup& group) {
  if (is_whole(torch, x, group)) return x;
  const std::vector<Tensor> parts =
      parts_along_last_dim(x, torch.distributed.get_world_size(group.group));
  const Tensor own = result_like(x, "reduce_scatter", parts.front().shape());
  torch.distributed.reduce_scatter(own, parts, ReduceOp::sum, {group.group}, group.location);
  return own;
}

Tensor exchange_along_first_dim(RuntimeContext& torch, const Tensor& x, const CallGroup& group,
                                std::span<const std::int64_t> output_split_sizes,
                                std::span<const std::int64_t> input_split_sizes) {
  if (is_whole(torch, x, group)) return x;
  const std::int64_t rows =
      output_split_sizes.empty()
          ? x.shape()[0]
          : std::accumulate(output_split_sizes.begin(), output_split_sizes.end(), std::int64_t{0});
  const Tensor received = result_like(x, "all_to_all", ops::with_size(x.shape(), 0, rows));
  torch.distributed.all_to_all_single(received, x, output_split_sizes, input_split_sizes,
                                      {group.group}, group.location);
  return received;
}

Tensor split_tensor_into_1d_equal_chunks(RuntimeContext& torch, const Tensor& x,
                                         const CallGroup& group) {
  const std::int64_t size = divide(x.numel(), torch.distributed.get_world_size(group.group));
  const Tensor flat = reshape(x.detach(), {-1});
  return slice(flat, 0, torch.distributed.get_rank(group.group) * size, size,
               ops::placement_of(flat));
}

Tensor gather_split_1d_tensor(RuntimeContext& torch, const Tensor& x, const CallGroup& group) {
  return gather_along_first_dim(torch, reshape(x.detach(), {-1}), group);
}

Tensor exchange_rows_for_columns(RuntimeContext& torch, const Tensor& x, const CallGroup& group) {
  if (is_whole(torch, x, group)) return x;
  const int world_size = torch.distributed.get_world_size(group.group);
  const std::vector<Tensor> parts = parts_along_last_dim(x, world_size);
  std::vector<Tensor> received;
  for (int rank = 0; rank < world_size; ++rank) {
    received.push_back(result_like(x, "all_to_all", parts.front().shape()));
  }
  torch.distributed.all_to_all(received, parts, {group.group}, group.location);
  return world_size == 1 ? received.front() : cat(received, 0);
}

Tensor exchange_columns_for_rows(RuntimeContext& torch, const Tensor& x, const CallGroup& group) {
  if (is_whole(torch, x, group)) return x;
  const int world_size = torch.distributed.get_world_size(group.group);
  const std::int64_t size = part_of_first_dim(x, world_size);
  std::vector<Tensor> parts;
  std::vector<Tensor> received;
  for (int rank = 0; rank < world_size; ++rank) {
    parts.push_back(slice(x, 0, rank * size, size, ops::placement_of(x)));
    received.push_back(result_like(x, "all_to_all", parts.back().shape()));
  }
  torch.distributed.all_to_all(received, parts, {group.group}, group.location);
  return world_size == 1 ? received.front() : cat(received, -1);
}

}  // namespace kernbench::tp
