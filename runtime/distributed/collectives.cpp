// torch.distributed's collectives of one tensor: the checks of each, and each rank's input and
// output.

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <chrono>

#include "runtime/distributed/distributed_state.h"
#include "runtime/distributed/group.h"
#include "runtime/distributed/misuse.h"
#include "runtime/distributed/work_state.h"
#include "runtime/simulation/simulation.h"
#include "runtime/tensor/describe.h"
#include "runtime/tensor/tensor_storage.h"
#include "runtime/torch/runtime_context.h"
#include "sim_engine/base/enum_names.h"

namespace kernbench::distributed {

std::string DistributedContext::backend_class() const {
  std::string name(backend().name());
  if (!name.empty()) name[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(name[0])));
  return "ProcessGroup" + name;
}

void DistributedContext::check_tensor(std::string_view function, const Tensor& x) const {
  torch_.check_on_device(x, function);
  const Tensor::Storage& storage = *x.storage();
  const bool is_row_of_sum = !storage.part.empty() && runtime::is_sum(storage);
  if (!is_row_of_sum && !runtime::lies_apart(storage)) return;
  throw CollectiveError(
      "KB-C013",
      fmt::format("{}: {} is a row of one {}; copy_ it into a tensor of its own first", function,
                  runtime::describe(x),
                  is_row_of_sum ? "whose holders have summands, of which all are added up at a time"
                                : "that is cut along its first dimension"));
}

void DistributedContext::check_tensors(std::string_view function,
                                       const std::vector<Tensor>& tensors) const {
  for (const Tensor& tensor : tensors) check_tensor(function, tensor);
}

namespace {

constexpr std::size_t kReduceOpCount = 9;

}  // namespace

void DistributedContext::check_reduce_op(ReduceOp op) const {
  if (!is_enumerator(op, kReduceOpCount)) {
    wrong_argument(fmt::format("There is no ReduceOp {}; there are: SUM, AVG, PRODUCT, MIN, MAX",
                               number_of(op)));
  }
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

namespace {

// The role of the rank that a call names.
std::string_view role_of_rank(std::string_view function) {
  if (function == "send" || function == "isend" || function == "send_object_list") {
    return "destination";
  }
  if (function == "recv" || function == "irecv" || function == "recv_object_list") return "source";
  return "root";
}

}  // namespace

// Returns the group rank of a root that is given as a global rank or as a rank in the group.
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
  if (call.group == state_->world.get()) {
    wrong_argument(fmt::format("{}::{}: invalid {} rank: {}", backend_class(), function,
                               role_of_rank(function), *global));
  }
  wrong_argument(
      fmt::format("Global rank {} is not part of group <{}>", *global, call.group->name));
}

int DistributedContext::root_or_first(std::string_view function, const Call& call,
                                      const std::optional<int>& global,
                                      const std::optional<int>& in_group) const {
  const bool is_given = global || in_group;
  return root_of(function, call, is_given ? global : std::optional(0), in_group);
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
