// torch.distributed's collectives: what each checks, and what each rank gives and takes.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <numeric>

#include "runtime/context/runtime_context.h"
#include "runtime/distributed/misuse.h"

namespace kernbench::distributed {

namespace {

std::vector<Block> whole(const std::vector<Tensor>& tensors) {
  std::vector<Block> blocks;
  for (const Tensor& tensor : tensors) blocks.push_back(distributed::whole(tensor));
  return blocks;
}

// As many equal parts, one after the other.
std::vector<Block> parts(const Tensor& tensor, int count) {
  const std::int64_t size = tensor.numel() / count;
  std::vector<Block> blocks;
  for (int i = 0; i < count; ++i) blocks.push_back({tensor, i * size, size});
  return blocks;
}

// What ranks compare of a tensor.
void note(CollectiveFingerprint& fingerprint, const Tensor& x) {
  fingerprint.shape = x.shape();
  fingerprint.dtype = x.dtype();
  fingerprint.placement = x.dp();
  fingerprint.device = x.device();
}

CollectiveFingerprint fingerprint_of(std::string_view function, CollectiveKind kind,
                                     Location location) {
  CollectiveFingerprint fingerprint;
  fingerprint.function = function;
  fingerprint.kind = kind;
  fingerprint.location = location;
  return fingerprint;
}

// As torch.dtype prints itself.
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

// Blocks of whole rows, from splits of the first dimension; none: equal ones.
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

std::string DistributedContext::backend_class() const {
  std::string name(backend().name());
  if (!name.empty()) name[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(name[0])));
  return "ProcessGroup" + name;
}

void DistributedContext::check_tensor(std::string_view function, const Tensor& x) const {
  if (x.is_host()) {
    misuse(fmt::format("{}: a host tensor cannot take part; make it by torch.zeros, full, ...",
                       function));
  }
  torch_.check_on_device(x, function);
}

void DistributedContext::check_tensors(std::string_view function,
                                       const std::vector<Tensor>& tensors) const {
  for (const Tensor& tensor : tensors) check_tensor(function, tensor);
}

void DistributedContext::check_reduce_op(ReduceOp op) const {
  if (op == ReduceOp::premul_sum) {
    wrong_argument(fmt::format("Cannot use ReduceOp.{} with {}", name_of(op), backend().name()));
  }
  if (op == ReduceOp::band || op == ReduceOp::bor || op == ReduceOp::bxor) {
    wrong_argument(fmt::format("Cannot use ReduceOp.{} with non-integral dtype", name_of(op)));
  }
}

void DistributedContext::check_list(std::string_view function, std::string_view list,
                                    const std::vector<Tensor>& tensors, int expected) const {
  if (static_cast<int>(tensors.size()) == expected) return;
  wrong_argument(
      fmt::format("{}::{}: invalid {} tensor list at index 0 (expected length {}, got "
                  "{})",
                  backend_class(), function, list, expected, tensors.size()));
}

// The group rank of what is given as a global rank or as one in the group.
int DistributedContext::root_of(std::string_view function, const Call& call,
                                const std::optional<int>& global,
                                const std::optional<int>& in_group) const {
  if (global && in_group) wrong_argument("Can't specify both group_rank and global_rank");
  if (!global && !in_group) wrong_argument("Must specify global_rank or group_rank");
  if (in_group) {
    if (*in_group >= 0 && *in_group < call.group->size()) return *in_group;
    wrong_argument(
        fmt::format("Group rank {} is not part of group <{}>", *in_group, call.group->name));
  }
  if (const auto rank = call.group->rank_of(*global)) return *rank;
  if (call.group == world_.get()) {
    wrong_argument(
        fmt::format("{}::{}: invalid root rank: {}", backend_class(), function, *global));
  }
  wrong_argument(
      fmt::format("Global rank {} is not part of group <{}>", *global, call.group->name));
}

Work DistributedContext::all_reduce(const Tensor& x, ReduceOp op, const CollectiveOptions& options,
                                    Location location) {
  const auto call = begin("all_reduce", options.group);
  if (!call) return {};
  check_tensor("all_reduce", x);
  check_reduce_op(op);
  CollectiveFingerprint fingerprint =
      fingerprint_of("all_reduce", CollectiveKind::all_reduce, location);
  note(fingerprint, x);
  fingerprint.op = op;
  return issue(
      *call, fingerprint,
      {CollectiveKind::all_reduce, {distributed::whole(x)}, {distributed::whole(x)}, op, 0},
      options.async_op);
}

Work DistributedContext::broadcast(const Tensor& x, int src, const CollectiveOptions& options,
                                   Location location) {
  return broadcast(x, {.src = src, .group = options.group, .async_op = options.async_op}, location);
}

Work DistributedContext::broadcast(const Tensor& x, const SourceOptions& options,
                                   Location location) {
  const auto call = begin("broadcast", options.group);
  if (!call) return {};
  check_tensor("broadcast", x);
  const int root = root_of("broadcast", *call, options.src, options.group_src);
  CollectiveFingerprint fingerprint =
      fingerprint_of("broadcast", CollectiveKind::broadcast, location);
  note(fingerprint, x);
  fingerprint.root = call->group->ranks[static_cast<std::size_t>(root)];
  return issue(*call, fingerprint,
               {CollectiveKind::broadcast,
                {distributed::whole(x)},
                {distributed::whole(x)},
                ReduceOp::sum,
                root},
               options.async_op);
}

Work DistributedContext::reduce(const Tensor& x, int dst, ReduceOp op,
                                const CollectiveOptions& options, Location location) {
  return reduce(x, {.dst = dst, .group = options.group, .async_op = options.async_op}, op,
                location);
}

Work DistributedContext::reduce(const Tensor& x, const DestinationOptions& options, ReduceOp op,
                                Location location) {
  const auto call = begin("reduce", options.group);
  if (!call) return {};
  check_tensor("reduce", x);
  check_reduce_op(op);
  const int root = root_of("reduce", *call, options.dst, options.group_dst);
  CollectiveFingerprint fingerprint = fingerprint_of("reduce", CollectiveKind::reduce, location);
  note(fingerprint, x);
  fingerprint.op = op;
  fingerprint.root = call->group->ranks[static_cast<std::size_t>(root)];
  return issue(*call, fingerprint,
               {CollectiveKind::reduce, {distributed::whole(x)}, {distributed::whole(x)}, op, root},
               options.async_op);
}

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

Work DistributedContext::gather(const Tensor& x, const std::vector<Tensor>& gather_list,
                                const DestinationOptions& options, Location location) {
  const auto call = begin("gather", options.group);
  if (!call) return {};
  check_tensor("gather", x);
  check_tensors("gather", gather_list);
  check_same_dtype(gather_list, x);
  const int root = root_of("gather", *call, options.dst, options.group_dst);
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

Work DistributedContext::scatter(const Tensor& x, const std::vector<Tensor>& scatter_list,
                                 const SourceOptions& options, Location location) {
  const auto call = begin("scatter", options.group);
  if (!call) return {};
  check_tensor("scatter", x);
  check_tensors("scatter", scatter_list);
  check_same_dtype(scatter_list, x);
  const int root = root_of("scatter", *call, options.src, options.group_src);
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

Work DistributedContext::barrier(const CollectiveOptions& options, Location location) {
  const auto call = begin("barrier", options.group);
  if (!call) return {};
  return issue(*call, fingerprint_of("barrier", CollectiveKind::barrier, location), {},
               options.async_op);
}

void DistributedContext::monitored_barrier(const MonitoredBarrierOptions& options,
                                           Location location) {
  const auto call = begin("monitored_barrier", options.group);
  if (!call) return;
  CollectiveFingerprint fingerprint =
      fingerprint_of("monitored_barrier", CollectiveKind::barrier, location);
  constexpr std::chrono::milliseconds kDefault = std::chrono::minutes(30);
  fingerprint.timeout_ms = std::max<std::int64_t>(options.timeout.value_or(kDefault).count(), 1);
  fingerprint.wait_all_ranks = options.wait_all_ranks;
  issue(*call, fingerprint, {}, false);
}

}  // namespace kernbench::distributed
