// torch.distributed's collectives in which each rank gives or takes one block per peer, as parts
// of one tensor or as a list of tensors.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <numeric>

#include "runtime/distributed/group.h"
#include "runtime/distributed/misuse.h"
#include "runtime/distributed/work_state.h"
#include "runtime/simulation/simulation.h"
#include "runtime/torch/runtime_context.h"

namespace kernbench::distributed {

namespace {

std::vector<Block> whole(const std::vector<Tensor>& tensors) {
  std::vector<Block> blocks;
  for (const Tensor& tensor : tensors) blocks.push_back(distributed::whole(tensor));
  return blocks;
}

// Splits the tensor into `count` equal consecutive blocks.
std::vector<Block> parts(const Tensor& tensor, int count) {
  const std::int64_t size = tensor.numel() / count;
  std::vector<Block> blocks;
  for (int i = 0; i < count; ++i) blocks.push_back({tensor, i * size, size});
  return blocks;
}

// The name that torch.dtype prints.
std::string_view dtype_text(DType dtype) {
  switch (dtype) {
    case DType::f16:
      return "float16";
    case DType::bf16:
      return "bfloat16";
    case DType::f32:
      break;
  }
  return "float32";
}

void check_same_dtype(const std::vector<Tensor>& tensors, const Tensor& x) {
  for (const Tensor& tensor : tensors) {
    if (tensor.dtype() == x.dtype()) continue;
    wrong_argument(
        fmt::format("Invalid usage of tensors with different dtypesFound torch.{} and  "
                    "torch.{}",
                    dtype_text(x.dtype()), dtype_text(tensor.dtype())));
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
    blocks.push_back({x, first * row, size * row});
    first += size;
  }
  return blocks;
}

}  // namespace

Work DistributedContext::all_gather(const std::vector<Tensor>& outputs, const Tensor& x,
                                    const CollectiveOptions& options, Location location) {
  const auto call = begin("all_gather", options.group);
  if (!call) return {};
  check_tensor("all_gather", x);
  check_tensors("all_gather", outputs);
  check_list("allgather", "output", outputs, call->group->size());
  check_same_dtype(outputs, x);
  CollectiveFingerprint fingerprint =
      fingerprint_of("all_gather", CollectiveKind::all_gather, location);
  note(fingerprint, x);
  fingerprint.is_list = true;
  return issue(*call, fingerprint,
               {CollectiveKind::all_gather, {distributed::whole(x)}, whole(outputs)},
               options.async_op);
}

Work DistributedContext::all_gather_into_tensor(const Tensor& output, const Tensor& input,
                                                const CollectiveOptions& options,
                                                Location location) {
  const auto call = begin("all_gather_into_tensor", options.group);
  if (!call) return {};
  check_tensors("all_gather_into_tensor", {output, input});
  if (output.dtype() != input.dtype()) {
    wrong_argument("output tensor must have the same type as input tensor");
  }
  if (output.numel() != input.numel() * call->group->size()) {
    wrong_argument("output tensor size must be equal to world_size times input tensor size");
  }
  CollectiveFingerprint fingerprint =
      fingerprint_of("all_gather_into_tensor", CollectiveKind::all_gather, location);
  note(fingerprint, input);
  return issue(
      *call, fingerprint,
      {CollectiveKind::all_gather, {distributed::whole(input)}, parts(output, call->group->size())},
      options.async_op);
}

Work DistributedContext::reduce_scatter(const Tensor& output, const std::vector<Tensor>& inputs,
                                        ReduceOp op, const CollectiveOptions& options,
                                        Location location) {
  const auto call = begin("reduce_scatter", options.group);
  if (!call) return {};
  check_tensor("reduce_scatter", output);
  check_tensors("reduce_scatter", inputs);
  check_list("reduce_scatter", "input", inputs, call->group->size());
  check_same_dtype(inputs, output);
  check_reduce_op(op);
  CollectiveFingerprint fingerprint =
      fingerprint_of("reduce_scatter", CollectiveKind::reduce_scatter, location);
  note(fingerprint, output);
  fingerprint.is_list = true;
  fingerprint.op = op;
  return issue(*call, fingerprint,
               {CollectiveKind::reduce_scatter, whole(inputs), {distributed::whole(output)}, op, 0},
               options.async_op);
}

Work DistributedContext::reduce_scatter_tensor(const Tensor& output, const Tensor& input,
                                               ReduceOp op, const CollectiveOptions& options,
                                               Location location) {
  const auto call = begin("reduce_scatter_tensor", options.group);
  if (!call) return {};
  check_tensors("reduce_scatter_tensor", {output, input});
  check_reduce_op(op);
  if (output.dtype() != input.dtype()) {
    wrong_argument("output tensor must have the same type as input tensor");
  }
  if (input.numel() != output.numel() * call->group->size()) {
    wrong_argument("input tensor must be the same size as output size times world size");
  }
  CollectiveFingerprint fingerprint =
      fingerprint_of("reduce_scatter_tensor", CollectiveKind::reduce_scatter, location);
  note(fingerprint, output);
  fingerprint.op = op;
  return issue(*call, fingerprint,
               {CollectiveKind::reduce_scatter,
                parts(input, call->group->size()),
                {distributed::whole(output)},
                op,
                0},
               options.async_op);
}

Work DistributedContext::all_to_all(const std::vector<Tensor>& outputs,
                                    const std::vector<Tensor>& inputs,
                                    const CollectiveOptions& options, Location location) {
  const auto call = begin("all_to_all", options.group);
  if (!call) return {};
  check_tensors("all_to_all", outputs);
  check_tensors("all_to_all", inputs);
  check_list("alltoall", "output", outputs, call->group->size());
  check_list("alltoall", "input", inputs, call->group->size());
  check_same_dtype(outputs, inputs.front());
  check_same_dtype(inputs, inputs.front());
  CollectiveFingerprint fingerprint =
      fingerprint_of("all_to_all", CollectiveKind::all_to_all, location);
  note(fingerprint, inputs.front());
  fingerprint.is_list = true;
  return issue(*call, fingerprint, {CollectiveKind::all_to_all, whole(inputs), whole(outputs)},
               options.async_op);
}

Work DistributedContext::all_to_all_single(const Tensor& output, const Tensor& input,
                                           std::span<const std::int64_t> output_split_sizes,
                                           std::span<const std::int64_t> input_split_sizes,
                                           const CollectiveOptions& options, Location location) {
  const auto call = begin("all_to_all_single", options.group);
  if (!call) return {};
  check_tensors("all_to_all_single", {output, input});
  check_same_dtype({output}, input);
  CollectiveFingerprint fingerprint =
      fingerprint_of("all_to_all_single", CollectiveKind::all_to_all, location);
  note(fingerprint, input);
  fingerprint.is_list = !output_split_sizes.empty() || !input_split_sizes.empty();
  const int size = call->group->size();
  return issue(*call, fingerprint,
               {CollectiveKind::all_to_all, split(input, input_split_sizes, size),
                split(output, output_split_sizes, size)},
               options.async_op);
}

Work DistributedContext::gather(const Tensor& x, std::span<const Tensor> list,
                                const DestinationOptions& options, Location location) {
  const auto call = begin("gather", options.group);
  if (!call) return {};
  const std::vector<Tensor> gather_list(list.begin(), list.end());
  check_tensor("gather", x);
  check_tensors("gather", gather_list);
  check_same_dtype(gather_list, x);
  const int root = root_or_first("gather", *call, options.dst, options.group_dst);
  if (call->rank == root) {
    if (gather_list.empty()) {
      wrong_argument("Argument ``gather_list`` must be specified on destination rank.");
    }
    check_list("gather", "output", gather_list, call->group->size());
  } else if (!gather_list.empty()) {
    wrong_argument("Argument ``gather_list`` must NOT be specified on non-destination ranks.");
  }
  CollectiveFingerprint fingerprint = fingerprint_of("gather", CollectiveKind::gather, location);
  note(fingerprint, x);
  fingerprint.root = call->group->ranks[static_cast<std::size_t>(root)];
  return issue(
      *call, fingerprint,
      {CollectiveKind::gather, {distributed::whole(x)}, whole(gather_list), ReduceOp::sum, root},
      options.async_op);
}

Work DistributedContext::scatter(const Tensor& x, std::span<const Tensor> list,
                                 const SourceOptions& options, Location location) {
  const auto call = begin("scatter", options.group);
  if (!call) return {};
  const std::vector<Tensor> scatter_list(list.begin(), list.end());
  check_tensor("scatter", x);
  check_tensors("scatter", scatter_list);
  check_same_dtype(scatter_list, x);
  const int root = root_or_first("scatter", *call, options.src, options.group_src);
  if (call->rank == root) {
    if (scatter_list.empty()) {
      wrong_argument("Argument ``scatter_list`` must be specified on source rank.");
    }
    check_list("scatter", "input", scatter_list, call->group->size());
  } else if (!scatter_list.empty()) {
    wrong_argument("Argument ``scatter_list`` must NOT be specified on non-source ranks.");
  }
  CollectiveFingerprint fingerprint = fingerprint_of("scatter", CollectiveKind::scatter, location);
  note(fingerprint, x);
  fingerprint.root = call->group->ranks[static_cast<std::size_t>(root)];
  return issue(
      *call, fingerprint,
      {CollectiveKind::scatter, whole(scatter_list), {distributed::whole(x)}, ReduceOp::sum, root},
      options.async_op);
}

}  // namespace kernbench::distributed
