// torch.distributed's collectives in which each rank gives or takes one block per peer, as parts
// of one tensor or as a list of tensors.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <numeric>

#include "runtime/distributed/distributed_state.h"
#include "runtime/distributed/misuse.h"

namespace kernbench::distributed {

namespace {

std::vector<Block> make_blocks(const std::vector<Tensor>& tensors) {
  std::vector<Block> blocks;
  for (const Tensor& tensor : tensors) blocks.push_back(whole(tensor));
  return blocks;
}

// Splits the tensor into `count` equal consecutive blocks.
std::vector<Block> parts(const Tensor& tensor, int count) {
  const std::int64_t size = tensor.numel() / count;
  std::vector<Block> blocks;
  for (int i = 0; i < count; ++i) {
    blocks.push_back({.tensor = tensor, .first = i * size, .count = size});
  }
  return blocks;
}

void check_same_dtype(const std::vector<Tensor>& tensors, const Tensor& x) {
  for (const Tensor& tensor : tensors) {
    if (tensor.dtype() == x.dtype()) continue;
    wrong_argument(
        fmt::format("Invalid usage of tensors with different dtypesFound torch.{} and  "
                    "torch.{}",
                    torch_dtype_of(x.dtype()), torch_dtype_of(tensor.dtype())));
  }
}

// Splits the first dimension into blocks of whole rows; without sizes they are equal.
std::vector<Block> split(const Tensor& x, std::span<const std::int64_t> sizes, int count) {
  const std::int64_t rows = x.shape().rank() == 0 ? 1 : x.shape()[0];
  const std::int64_t row = rows == 0 ? 0 : x.numel() / rows;
  if (sizes.empty()) {
    if (rows % count != 0) {
      wrong_argument("Tensor's dim 0 does not divide equally across group size");
    }
    return parts(x, count);
  }
  if (static_cast<int>(sizes.size()) != count) {
    wrong_argument("Number of tensor splits not equal to group size");
  }
  if (std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0}) != rows) {
    wrong_argument("Split sizes doesn't match total dim 0 size");
  }
  std::vector<Block> blocks;
  std::int64_t first = 0;
  for (const std::int64_t size : sizes) {
    if (size < 0) wrong_argument(fmt::format("Split sizes must not be negative, got {}", size));
    blocks.push_back({.tensor = x, .first = first * row, .count = size * row});
    first += size;
  }
  return blocks;
}

// Each rank gives, or takes, as many elements as the root has for it.
void check_sizes(std::string_view function, const std::vector<Tensor>& list, const Tensor& x) {
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (list[i].numel() == x.numel()) continue;
    wrong_argument(
        fmt::format("{}: invalid tensor size at index {} (expected {}, got {}): each has "
                    "as many elements as the rank's own tensor",
                    function, i, to_string(x.shape()), to_string(list[i].shape())));
  }
}

}  // namespace

Work DistributedContext::all_gather(const std::vector<Tensor>& outputs, const Tensor& x,
                                    const CollectiveOptions& options, Location location) {
  auto call = state_->begin("all_gather", CollectiveKind::all_gather, options, location);
  if (!call) return {};
  state_->check_tensors(*call, {x});
  state_->check_tensors(*call, outputs);
  state_->check_list("allgather", "output", outputs, state_->member_count(*call->group));
  check_same_dtype(outputs, x);
  call->is_list = true;
  call->gives = {whole(x)};
  call->takes = make_blocks(outputs);
  return state_->issue(std::move(*call));
}

Work DistributedContext::all_gather_into_tensor(const Tensor& output, const Tensor& input,
                                                const CollectiveOptions& options,
                                                Location location) {
  auto call =
      state_->begin("all_gather_into_tensor", CollectiveKind::all_gather, options, location);
  if (!call) return {};
  state_->check_tensors(*call, {output, input});
  if (output.dtype() != input.dtype()) {
    wrong_argument("output tensor must have the same type as input tensor");
  }
  if (output.numel() != input.numel() * state_->member_count(*call->group)) {
    wrong_argument("output tensor size must be equal to world_size times input tensor size");
  }
  call->gives = {whole(input)};
  call->takes = parts(output, state_->member_count(*call->group));
  return state_->issue(std::move(*call));
}

Work DistributedContext::reduce_scatter(const Tensor& output, const std::vector<Tensor>& inputs,
                                        ReduceOp op, const CollectiveOptions& options,
                                        Location location) {
  auto call = state_->begin("reduce_scatter", CollectiveKind::reduce_scatter, options, location);
  if (!call) return {};
  state_->check_tensors(*call, {output});
  state_->check_tensors(*call, inputs);
  state_->check_list("reduce_scatter", "input", inputs, state_->member_count(*call->group));
  check_same_dtype(inputs, output);
  state_->set_reduce_op(*call, op, output.dtype());
  call->is_list = true;
  call->gives = make_blocks(inputs);
  call->takes = {whole(output)};
  return state_->issue(std::move(*call));
}

Work DistributedContext::reduce_scatter_tensor(const Tensor& output, const Tensor& input,
                                               ReduceOp op, const CollectiveOptions& options,
                                               Location location) {
  auto call =
      state_->begin("reduce_scatter_tensor", CollectiveKind::reduce_scatter, options, location);
  if (!call) return {};
  state_->check_tensors(*call, {output, input});
  state_->set_reduce_op(*call, op, output.dtype());
  if (output.dtype() != input.dtype()) {
    wrong_argument("output tensor must have the same type as input tensor");
  }
  if (input.numel() != output.numel() * state_->member_count(*call->group)) {
    wrong_argument("input tensor must be the same size as output size times world size");
  }
  call->gives = parts(input, state_->member_count(*call->group));
  call->takes = {whole(output)};
  return state_->issue(std::move(*call));
}

Work DistributedContext::all_to_all(const std::vector<Tensor>& outputs,
                                    const std::vector<Tensor>& inputs,
                                    const CollectiveOptions& options, Location location) {
  auto call = state_->begin("all_to_all", CollectiveKind::all_to_all, options, location);
  if (!call) return {};
  state_->check_tensors(*call, outputs);
  state_->check_tensors(*call, inputs);
  state_->check_list("alltoall", "output", outputs, state_->member_count(*call->group));
  state_->check_list("alltoall", "input", inputs, state_->member_count(*call->group));
  check_same_dtype(outputs, inputs.front());
  check_same_dtype(inputs, inputs.front());
  call->is_list = true;
  call->gives = make_blocks(inputs);
  call->takes = make_blocks(outputs);
  return state_->issue(std::move(*call));
}

Work DistributedContext::all_to_all_single(const Tensor& output, const Tensor& input,
                                           std::span<const std::int64_t> output_split_sizes,
                                           std::span<const std::int64_t> input_split_sizes,
                                           const CollectiveOptions& options, Location location) {
  auto call = state_->begin("all_to_all_single", CollectiveKind::all_to_all, options, location);
  if (!call) return {};
  state_->check_tensors(*call, {output, input});
  check_same_dtype({output}, input);
  call->is_list = !output_split_sizes.empty() || !input_split_sizes.empty();
  call->gives = split(input, input_split_sizes, state_->member_count(*call->group));
  call->takes = split(output, output_split_sizes, state_->member_count(*call->group));
  return state_->issue(std::move(*call));
}

Work DistributedContext::gather(const Tensor& x, std::span<const Tensor> list,
                                const DestinationOptions& options, Location location) {
  auto call = state_->begin("gather", CollectiveKind::gather,
                            {.group = options.group, .async_op = options.async_op}, location);
  if (!call) return {};
  const std::vector<Tensor> gather_list(list.begin(), list.end());
  state_->check_tensors(*call, {x});
  state_->check_tensors(*call, gather_list);
  check_same_dtype(gather_list, x);
  state_->set_root_or_first(*call, options.dst, options.group_dst);
  if (call->rank == call->root) {
    if (gather_list.empty()) {
      wrong_argument("Argument ``gather_list`` must be specified on destination rank.");
    }
    state_->check_list("gather", "output", gather_list, state_->member_count(*call->group));
    check_sizes("gather", gather_list, x);
  } else if (!gather_list.empty()) {
    wrong_argument("Argument ``gather_list`` must NOT be specified on non-destination ranks.");
  }
  call->gives = {whole(x)};
  call->takes = make_blocks(gather_list);
  return state_->issue(std::move(*call));
}

Work DistributedContext::scatter(const Tensor& x, std::span<const Tensor> list,
                                 const SourceOptions& options, Location location) {
  auto call = state_->begin("scatter", CollectiveKind::scatter,
                            {.group = options.group, .async_op = options.async_op}, location);
  if (!call) return {};
  const std::vector<Tensor> scatter_list(list.begin(), list.end());
  state_->check_tensors(*call, {x});
  state_->check_tensors(*call, scatter_list);
  check_same_dtype(scatter_list, x);
  state_->set_root_or_first(*call, options.src, options.group_src);
  if (call->rank == call->root) {
    if (scatter_list.empty()) {
      wrong_argument("Argument ``scatter_list`` must be specified on source rank.");
    }
    state_->check_list("scatter", "input", scatter_list, state_->member_count(*call->group));
    check_sizes("scatter", scatter_list, x);
  } else if (!scatter_list.empty()) {
    wrong_argument("Argument ``scatter_list`` must NOT be specified on non-source ranks.");
  }
  call->gives = make_blocks(scatter_list);
  call->takes = {whole(x)};
  return state_->issue(std::move(*call));
}

}  // namespace kernbench::distributed
