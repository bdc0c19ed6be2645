// torch.distributed's collectives of one tensor: the checks of each, and each rank's input and
// output.

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cctype>
#include <chrono>

#include "runtime/distributed/distributed_state.h"
#include "runtime/distributed/misuse.h"
#include "runtime/tensor/describe.h"
#include "runtime/tensor/strided_view.h"
#include "runtime/tensor/tensor_storage.h"
#include "sim_engine/base/enum_names.h"

namespace kernbench::distributed {

std::string DistributedContext::State::backend_class() const {
  std::string name(backend->name());
  if (!name.empty()) name[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(name[0])));
  return "ProcessGroup" + name;
}

void DistributedContext::State::check_tensor(std::string_view function, const Tensor& x) const {
  runtime::check_on_device(x, *simulation, function);
  const Tensor::Storage& storage = *x.storage();
  compute_before_write(*storage.memory);  // before the call waits for the stream
  if (runtime::is_strided(x)) {
    throw CollectiveError("KB-C013",
                          "{}: Tensors must be contiguous: {} is a view whose elements lie apart; "
                          "use its contiguous(), and copy_ that back",
                          function, runtime::describe(x));
  }
  const bool is_part_of_sum = !storage.part.empty() && runtime::is_sum(storage);
  if (!is_part_of_sum && !runtime::lies_apart(storage)) return;
  throw CollectiveError(
      "KB-C013", "{}: {} is a {}; copy_ it into a tensor of its own first", function,
      runtime::describe(x),
      is_part_of_sum
          ? "part of one whose holders have summands, of which all are added up at a time"
          : "row of one that is cut along its first dimension");
}

void DistributedContext::State::check_tensors(const CollectiveCall& call,
                                              const std::vector<Tensor>& tensors) const {
  for (const Tensor& tensor : tensors) check_tensor(call.event.function, tensor);
}

void DistributedContext::State::set_reduce_op(CollectiveCall& call, ReduceOp op,
                                              DType dtype) const {
  constexpr std::size_t kCount = 9;
  if (!is_enumerator(op, kCount)) {
    wrong_argument(fmt::format("There is no ReduceOp {}; there are: SUM, AVG, PRODUCT, MIN, MAX",
                               number_of(op)));
  }
  if (op == ReduceOp::premul_sum) {
    wrong_argument(fmt::format("Cannot use ReduceOp.{} with {}", name_of(op), backend->name()));
  }
  const bool is_of_bits = op == ReduceOp::band || op == ReduceOp::bor || op == ReduceOp::bxor;
  if (op == ReduceOp::avg && is_integral(dtype)) {
    wrong_argument(fmt::format("Cannot use ReduceOp.AVG with {}", torch_name_of(dtype)));
  }
  if (is_of_bits && !is_integral(dtype)) {
    wrong_argument(fmt::format("Cannot use ReduceOp.{} with non-integral dtype", name_of(op)));
  }
  call.op = op;
  call.event.reduce_op = name_of(op);
  const bool adds = op == ReduceOp::sum || op == ReduceOp::avg;
  if (is_integral(dtype) || !(adds || op == ReduceOp::product)) {
    call.reproducible = Reproducible::run;  // it does not round
  } else if (adds && call.kind == CollectiveKind::all_reduce) {
    call.reproducible = std::max(call.reproducible, least_reproducible);
  } else if (call.reproducible == Reproducible::ranks) {
    wrong_argument(
        fmt::format("Cannot use {} with ReduceOp.{} and Reproducible::ranks, which is "
                    "for all_reduce with SUM or AVG; Reproducible::batch serves it",
                    traits_of(call.kind).name, name_of(op)));
  } else {
    const bool has_level = least_reproducible != Reproducible::ranks;
    const Reproducible least = has_level ? least_reproducible : Reproducible::batch;
    call.reproducible = std::max(call.reproducible, least);
  }
  const auto ranks = static_cast<unsigned>(member_count(*call.group));
  if (call.reproducible == Reproducible::pairs && !std::has_single_bit(ranks)) {
    wrong_argument(fmt::format("Cannot use {} of {} ranks with Reproducible::pairs, which needs a "
                               "power of two (the call, RuntimeOptions or "
                               "KERNBENCH_WORLD_INVARIANT asks for it)",
                               traits_of(call.kind).name, ranks));
  }
}

void DistributedContext::State::check_list(std::string_view function, std::string_view list,
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

int DistributedContext::State::member_count(const Group& group) const {
  return backend->has_single_driver() ? backend->world_size() : group.size();
}

int DistributedContext::State::to_group_rank(std::string_view function, const Group& group,
                                             const std::optional<int>& global,
                                             const std::optional<int>& in_group) const {
  if (global && in_group) wrong_argument("Can't specify both group_rank and global_rank");
  if (!global && !in_group) wrong_argument("Must specify global_rank or group_rank");
  if (in_group) {
    if (*in_group >= 0 && *in_group < group.size()) return *in_group;
    wrong_argument(fmt::format("Group rank {} is not part of group <{}>", *in_group, group.name));
  }
  if (const auto rank = group.rank_of_global(*global)) return *rank;
  if (&group == world.get()) {
    wrong_argument(fmt::format("{}::{}: invalid {} rank: {}", backend_class(), function,
                               role_of_rank(function), *global));
  }
  wrong_argument(fmt::format("Global rank {} is not part of group <{}>", *global, group.name));
}

void DistributedContext::State::set_root(CollectiveCall& call, const std::optional<int>& global,
                                         const std::optional<int>& in_group) const {
  // A driver names any of the ranks that it calls for.
  const int of_driver = call.is_for_all ? global.value_or(in_group.value_or(-1)) : -1;
  if (of_driver >= 0 && of_driver < member_count(*call.group) && !(global && in_group)) {
    call.root = call.event.root = of_driver;
    return;
  }
  call.root = to_group_rank(call.event.function, *call.group, global, in_group);
  call.event.root = call.group->ranks[static_cast<std::size_t>(call.root)];
}

void DistributedContext::State::set_root_or_first(CollectiveCall& call,
                                                  const std::optional<int>& global,
                                                  const std::optional<int>& in_group) const {
  set_root(call, global || in_group ? global : std::optional(0), in_group);
}

Work DistributedContext::all_reduce(const Tensor& x, ReduceOp op, const CollectiveOptions& options,
                                    Location location) {
  auto call = state_->begin("all_reduce", CollectiveKind::all_reduce, options, location);
  if (!call) return {};
  state_->check_tensors(*call, {x});
  state_->set_reduce_op(*call, op, x.dtype());
  call->gives = call->takes = {whole(x)};
  return state_->issue(std::move(*call));
}

Work DistributedContext::broadcast(const Tensor& x, int src, const CollectiveOptions& options,
                                   Location location) {
  return broadcast(x, {.src = src, .group = options.group, .async_op = options.async_op}, location);
}

Work DistributedContext::broadcast(const Tensor& x, const SourceOptions& options,
                                   Location location) {
  auto call = state_->begin("broadcast", CollectiveKind::broadcast,
                            {.group = options.group, .async_op = options.async_op}, location);
  if (!call) return {};
  state_->check_tensors(*call, {x});
  state_->set_root(*call, options.src, options.group_src);
  call->gives = call->takes = {whole(x)};
  return state_->issue(std::move(*call));
}

Work DistributedContext::reduce(const Tensor& x, int dst, ReduceOp op,
                                const CollectiveOptions& options, Location location) {
  return reduce(x,
                {.dst = dst,
                 .group = options.group,
                 .async_op = options.async_op,
                 .reproducible = options.reproducible},
                op, location);
}

Work DistributedContext::reduce(const Tensor& x, const DestinationOptions& options, ReduceOp op,
                                Location location) {
  auto call = state_->begin(
      "reduce", CollectiveKind::reduce,
      {.group = options.group, .async_op = options.async_op, .reproducible = options.reproducible},
      location);
  if (!call) return {};
  state_->check_tensors(*call, {x});
  state_->set_reduce_op(*call, op, x.dtype());
  state_->set_root(*call, options.dst, options.group_dst);
  call->gives = call->takes = {whole(x)};
  return state_->issue(std::move(*call));
}

Work DistributedContext::barrier(const CollectiveOptions& options, Location location) {
  auto call = state_->begin("barrier", CollectiveKind::barrier, options, location);
  return call ? state_->issue(std::move(*call)) : Work();
}

void DistributedContext::monitored_barrier(const MonitoredBarrierOptions& options,
                                           Location location) {
  auto call = state_->begin("monitored_barrier", CollectiveKind::barrier, {.group = options.group},
                            location);
  if (!call) return;
  constexpr std::chrono::milliseconds kDefault = std::chrono::minutes(30);
  call->timeout_ms = std::max<std::int64_t>(options.timeout.value_or(kDefault).count(), 1);
  call->wait_all_ranks = options.wait_all_ranks;
  state_->issue(std::move(*call));
}

}  // namespace kernbench::distributed
