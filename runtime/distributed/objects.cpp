
#include <utility>

#include "runtime/distributed/distributed.h"
#include "runtime/distributed/distributed_state.h"
#include "runtime/distributed/fingerprint.h"
#include "runtime/distributed/in_collective.h"
#include "runtime/distributed/misuse.h"

namespace kernbench::distributed {

void throw_other_type(std::string_view function) {
  throw CollectiveMismatchError("KB-C001",
                                "Detected mismatch between collectives on ranks. Ranks brought "
                                "objects of different types to {}",
                                function);
}

void DistributedContext::check_gather_list(const ObjectCall& call, bool is_given) {
  if (call.rank == call.root && !is_given) {
    wrong_argument("Argument ``object_gather_list`` must be specified on destination rank.");
  }
  if (call.rank != call.root && is_given) {
    wrong_argument(
        "Argument ``object_gather_list`` must NOT be specified on non-destination ranks.");
  }
}

void DistributedContext::check_scatter_list(const ObjectCall& call, std::size_t count) {
  if (count == static_cast<std::size_t>(call.size)) return;
  wrong_argument(
      "Expected argument scatter_object_input_list to be a list of one object for each rank.");
}

DistributedContext::ObjectCall DistributedContext::begin_objects(std::string_view function,
                                                                 const ProcessGroup& group,
                                                                 const Root& root,
                                                                 Location location) const {
  auto begun = begin_objects(function, group, location);
  if (!begun.call) return begun;
  state_->set_root_or_first(*begun.call, root.global, root.in_group);
  begun.root = begun.call->root;
  return begun;
}

DistributedContext::ObjectCall DistributedContext::begin_objects(std::string_view function,
                                                                 const ProcessGroup& group,
                                                                 Location location) const {
  auto call = state_->begin(function, CollectiveKind::objects, {.group = group}, location);
  if (!call) return {};
  const auto kept = std::make_shared<CollectiveCall>(std::move(*call));
  return {.call = kept, .rank = kept->rank, .root = kept->root, .size = kept->group->size()};
}

DistributedContext::Objects DistributedContext::exchange(const ObjectCall& call, std::any own) {
  return state_->exchange(*call.call, std::move(own));
}

DistributedContext::Objects DistributedContext::State::exchange(CollectiveCall& call,
                                                                std::any own) {
  wait_for_stream(call);
  const auto describe = [&] { return describe_in_group(call); };
  const CallRecord record = arrive(call);
  record.started(describe);
  const sim::Folding& folding = simulation->machine().folding();
  for (int rank = 0; rank < call.group->size() && folding.is_on(); ++rank) {
    const int global = call.group->ranks[static_cast<std::size_t>(rank)];
    const bool is_other = rank != call.rank && folding.first_of(global) == local().rank;
    if (is_other) object_meetings.arrive(call.operation, call.group->size(), rank, own);
  }
  const auto meeting =
      object_meetings.arrive(call.operation, call.group->size(), call.rank, std::move(own));
  run_to_death([&] {
    const InCollective in(local(), call);
    meeting->wait(*simulation, [] { return std::string("the other ranks' objects"); });
  });
  record.completed(describe);
  return Objects(meeting, &meeting->all());
}

Work DistributedContext::post_objects(std::shared_ptr<std::any> sent, const std::optional<int>& dst,
                                      const SendOptions& options, Location location) {
  MessageCall call = sending("send_object_list", options, location);
  if (dst) call.peer = dst;
  return state_->post(call, {}, std::move(sent));
}

Work DistributedContext::await_objects(std::shared_ptr<std::any> received,
                                       const std::optional<int>& src, const RecvOptions& options,
                                       Location location) {
  MessageCall call = receiving("recv_object_list", options, location);
  if (src) call.peer = src;
  return state_->post(call, {}, std::move(received));
}

}  // namespace kernbench::distributed
