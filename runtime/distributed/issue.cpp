// Turns a call of torch.distributed into work: it arrives at the ledger, is compared, and is run
// by the backend.

#include <fmt/format.h>

#include <algorithm>
#include <any>
#include <cstdio>
#include <utility>

#include "runtime/distributed/aliasing.h"
#include "runtime/distributed/distributed_state.h"
#include "runtime/distributed/group.h"
#include "runtime/distributed/in_collective.h"
#include "runtime/distributed/mailbox.h"
#include "runtime/distributed/misuse.h"
#include "runtime/distributed/work_state.h"
#include "runtime/simulation/simulation.h"
#include "runtime/tensor/tensor_storage.h"
#include "runtime/torch/runtime_context.h"

namespace kernbench::distributed {

using runtime::FiberLocal;
using runtime::FlightRecorder;

namespace {

runtime::FlightEvent flight_of(const CollectiveFingerprint& print, int group,
                               std::uint64_t sequence, Time now) {
  return {.function = print.function,
          .location = print.location,
          .group = group,
          .sequence = static_cast<std::int64_t>(sequence),
          .root = print.root.value_or(-1),
          .reduce_op = print.op ? name_of(*print.op) : std::string_view(),
          .has_tensor = print.shape.has_value(),
          .is_async = print.is_async,
          .dtype = print.dtype,
          .shape = print.shape.value_or(Shape()),
          .issued = now};
}

std::vector<Tensor> tensors_of(const std::vector<Block>& blocks) {
  std::vector<Tensor> tensors;
  for (const Block& block : blocks) {
    if (tensors.empty() || tensors.back().storage() != block.tensor.storage()) {
      tensors.push_back(block.tensor);
    }
  }
  return tensors;
}

void check_one_device(std::string_view function, const CollectiveRequest& request) {
  std::optional<int> device;
  for (const auto* blocks : {&request.gives, &request.takes}) {
    for (const Block& block : *blocks) {
      const int own = block.tensor.device();
      if (device.value_or(own) != own) {
        wrong_argument(
            fmt::format("{}: its tensors lie on devices {} and {}; those of one call must lie on "
                        "one device",
                        function, std::min(*device, own), std::max(*device, own)));
      }
      device = own;
    }
  }
}

// Ends a run in which a rank keeps calling although each call fails because others have left or an
// earlier call was refused: it will never wait for anything.
void stop_if_endless(runtime::Simulation& simulation, const Group& group, int rank) {
  constexpr std::uint64_t kMostCalls = 10'000;
  std::uint64_t least = group.ledger.next_sequence(rank);
  const std::uint64_t own = least;
  for (int i = 0; i < group.size(); ++i) least = std::min(least, group.ledger.next_sequence(i));
  const auto refused = static_cast<std::uint64_t>(group.ledger.futile_calls(rank));
  const bool is_endless = own - least >= kMostCalls || refused >= kMostCalls;
  if (!is_endless || simulation.fibers().current() == nullptr) return;
  simulation.fail(std::make_exception_ptr(DeadlockError(
      "KB-D002",
      fmt::format("no progress: rank {} has called {} collectives by t={} that {}, and caught the "
                  "error each time",
                  simulation.local().rank, std::max(own - least, refused),
                  to_string(simulation.now()),
                  refused > 0 ? "were refused" : "others have left"))));
  simulation.fibers().park([] { return std::string("the end of the run"); });
}

}  // namespace

// Returns nullopt if the caller is no member; it has been warned.
std::optional<DistributedContext::Call> DistributedContext::begin(std::string_view function,
                                                                  const ProcessGroup& group) const {
  backend();
  if (local().kind == FiberLocal::Kind::kernel) {
    throw CollectiveError("KB-R012",
                          fmt::format("{} called inside kernel '{}'", function, local().kernel));
  }
  const int callers = state_->world->size();
  if (state_->backend->has_single_driver() && local().rank > 0) {
    throw CollectiveError(
        "KB-C006", fmt::format("rank {} called {}, but the ranks of this group are {} PEs, for "
                               "which a single driver calls: call it outside spawn(), or take "
                               "world_size out of ccl.yaml",
                               local().rank, function, state_->backend->world_size()));
  }
  if (local().rank >= callers) {
    throw CollectiveError("KB-C006",
                          fmt::format("rank {} is not a member of the default group of {} "
                                      "ranks",
                                      local().rank, callers));
  }
  if (!group.is_default() && !group.is_non_member()) registered(group);
  Group* const found = find(group);
  if (found != nullptr) return Call{found, *found->rank_of(local().rank)};
  fmt::print(stderr,
             "kernbench: warning: Running {} on global rank {} which does not belong to the given "
             "group.\n",
             function, local().rank);
  return std::nullopt;
}

DistributedContext::Arrival DistributedContext::arrive(const Call& call,
                                                       const CollectiveFingerprint& fingerprint,
                                                       const CollectiveRequest& request) {
  if (local().kind == FiberLocal::Kind::unbound) {  // no spawn(): nobody else will come
    for (int rank = 0; rank < call.group->size(); ++rank) {
      if (rank != call.rank) call.group->ledger.leave(rank, false);
    }
  }
  runtime::Simulation& simulation = torch_.simulation();
  const std::uint64_t sequence = call.group->ledger.next_sequence(call.rank);
  const FlightRecorder::Id flight = simulation.flight_recorder().issue(
      local().rank, flight_of(fingerprint, call.group->number, sequence, simulation.now()));
  simulation.local().last_call.set(fingerprint.function.data(), fingerprint.location.file_name(),
                                   fingerprint.location.line(),
                                   static_cast<std::int64_t>(sequence));
  simulation.log(runtime::LogTopic::distributed, [&] {
    return describe_in(call.group->number, fingerprint, sequence) + " issued";
  });
  try {
    const CollectiveCall arrived = call.group->ledger.arrive(
        call.rank, fingerprint, request.gives, request.takes, simulation.next_operation());
    simulation.begin(arrived.operation);
    return {arrived, flight};
  } catch (const Error&) {
    stop_if_endless(simulation, *call.group, call.rank);
    throw;
  }
}

// A call that has arrived, with all that it needs to run, since its group may be destroyed
// meanwhile.
struct DistributedContext::Issued {
  CollectiveFingerprint fingerprint;
  Arrival arrival;
  std::shared_ptr<Group> group;
  std::shared_ptr<Communicator> communicator;
  std::shared_ptr<Work::State> previous;  // the rank's call before it in the group
  CollectiveRequest request;
};

// Throws CollectiveError KB-G003 if an operation under way forbids the call (data_under_way.h).
void DistributedContext::check_tensors_are_free(const Call& call,
                                                const CollectiveFingerprint& fingerprint,
                                                const CollectiveRequest& request) const {
  const runtime::Timeline* const stream =
      call.group->timelines[static_cast<std::size_t>(call.rank)].get();
  const auto what = [&] {
    return describe_in(call.group->number, fingerprint,
                       call.group->ledger.next_sequence(call.rank));
  };
  const bool is_written = changes(request, call.rank, is_partial(fingerprint.placement));
  for (const Tensor& tensor : tensors_of(request.takes)) {
    runtime::check_may_touch(tensor, is_written ? runtime::Touch::writes : runtime::Touch::reads,
                             what, stream);
  }
  for (const Tensor& tensor : tensors_of(request.gives)) {
    runtime::check_may_touch(tensor, runtime::Touch::reads, what, stream);
  }
}

// A rank's collectives of one group run one after the other, as on a stream of their own.
Work DistributedContext::issue(const Call& call, CollectiveFingerprint fingerprint,
                               CollectiveRequest request, bool async_op) {
  check_one_device(fingerprint.function, request);
  check_are_apart(fingerprint.function, output_list_of(request.kind), request.takes);
  check_tensors_are_free(call, fingerprint, request);
  fingerprint.is_async = async_op;
  const Arrival arrival = arrive(call, fingerprint, request);
  std::shared_ptr<Work::State>& last = call.group->last[static_cast<std::size_t>(call.rank)];
  Issued issued{std::move(fingerprint),       arrival, call.group->shared_from_this(),
                communicator_of(*call.group), last,    std::move(request)};
  const std::shared_ptr<runtime::Timeline>& stream =
      call.group->timelines[static_cast<std::size_t>(call.rank)];
  if (!async_op) {
    run(issued);
    stream->know(state_->issued_count);  // run() waited for the calls before it
    return {};
  }
  const std::shared_ptr<Work::State> work =
      make_work(describe_in(call.group->number, issued.fingerprint, arrival.call.sequence), stream);
  work->sequence = arrival.call.sequence;
  work->flight = arrival.flight;
  work->group = issued.group;
  std::vector<Tensor> written = tensors_of(issued.request.takes);
  const bool is_next = last == nullptr || last->is_done;
  last = work;
  const bool is_written =
      changes(issued.request, call.rank, is_partial(issued.fingerprint.placement));
  for (const Tensor& tensor : tensors_of(issued.request.gives)) work->keep(tensor, false);
  for (const Tensor& tensor : written) work->keep(tensor, is_written);
  // A call that changes nothing, and has no call to wait for, completes at once without a fiber.
  if (is_next && changes_nothing(*call.group, issued.request)) {
    run(issued);
    work->finish(nullptr);
    return Work(work, std::move(written));
  }
  start(work, [this, issued = std::move(issued)] { run(issued); });
  return Work(work, std::move(written));
}

void DistributedContext::run(const Issued& issued) {
  InCollective in(torch_.simulation(), *issued.group, issued.fingerprint,
                  issued.arrival.call.sequence, issued.arrival.flight);
  if (const auto& previous = issued.previous) {
    previous->wait([&] { return fmt::format("{} before it", previous->description); });
  }
  in.started_on_device();
  if (!changes_nothing(*issued.group, issued.request)) {
    in.runs_by(issued.communicator->runs_by(issued.request));
    run_on_snapshots_if_aliased(*issued.communicator, issued.arrival.call, issued.request);
  }
  if (!issued.fingerprint.is_async) in.completed();  // an async call completes with its Work
}

// Enters the properties that ranks compare.  The placement of a partial tensor is the one it will
// have when the operations issued before are done, which may sum it up.
void DistributedContext::note(CollectiveFingerprint& fingerprint, const Tensor& x) const {
  distributed::note(fingerprint, x);
  if (!is_partial(fingerprint.placement)) return;
  const auto own = state_->works.find(local().rank);
  const bool will_be_summed =
      own != state_->works.end() &&
      std::ranges::any_of(own->second.all(), [&](const auto& work) { return work->will_write(x); });
  if (will_be_summed) fingerprint.placement = summed(fingerprint.placement);
}

// True for a group of one whose output is already its input.  (If PEs are the ranks, a single
// caller is not the only member.)
bool DistributedContext::changes_nothing(const Group& group,
                                         const CollectiveRequest& request) const {
  if (group.size() > 1 || state_->backend->world_size() != state_->backend->caller_count())
    return false;
  if (request.gives.empty()) return true;  // a barrier
  const Block& gives = request.gives.front();
  const Block& takes = request.takes.front();
  return gives.tensor.storage() == takes.tensor.storage() && gives.first == takes.first &&
         !runtime::is_sum(*takes.tensor.storage());
}

// Connects the group when it first runs something, since most of many groups run nothing.
std::shared_ptr<Communicator> DistributedContext::communicator_of(Group& group) {
  if (group.communicator == nullptr) group.communicator = state_->backend->connect(group.ranks);
  return group.communicator;
}

// Operations with the same `stream` end in the order of their issue.
std::shared_ptr<Work::State> DistributedContext::make_work(
    std::string description, std::shared_ptr<runtime::Timeline> stream) {
  WorkList& works = state_->works[local().rank];
  auto work = std::make_shared<Work::State>(
      torch_.shared_simulation(),
      std::make_shared<runtime::OperationUnderWay>(runtime::OperationUnderWay{
          std::move(description), ++state_->issued_count, std::move(stream), works.timeline()}));
  work->rank = local().rank;
  works.add(work);
  return work;
}

// Runs `body` on a fiber of its own, which acts for the rank.
void DistributedContext::start(const std::shared_ptr<Work::State>& work,
                               std::function<void()> body) {
  const auto fiber_local = std::make_shared<FiberLocal>();
  fiber_local->kind = FiberLocal::Kind::work;
  fiber_local->rank = local().rank;
  fiber_local->device = local().device;
  torch_.simulation().fibers().spawn(
      runtime::FiberName(runtime::write_name), std::move(body), fiber_local.get(),
      [work, fiber_local](runtime::Fiber&, const runtime::FiberResult& result) {
        work->is_aborted = result.how != runtime::FiberResult::How::threw &&
                           result.how != runtime::FiberResult::How::returned;
        work->finish(result.how == runtime::FiberResult::How::threw ? result.exception : nullptr);
      });
}

// Returns the failure of a work that nobody has waited for: it may be why others wait for ever.
std::exception_ptr DistributedContext::unnoticed_failure() const {
  for (const auto& [rank, works] : state_->works) {
    for (const std::shared_ptr<Work::State>& work : works.all()) {
      if (work->failure != nullptr && !work->is_waited_for) return work->failure;
    }
  }
  return nullptr;
}

struct DistributedContext::State::ObjectExchange {
  explicit ObjectExchange(int members) : objects(static_cast<std::size_t>(members)) {}
  std::vector<std::any> objects;  // by group rank
  int arrived = 0;
  runtime::Event all_have_arrived;
};

int DistributedContext::size_of(const Call& call) {
  return call.group->size();
}

// Gives each member the objects of all; the last to arrive wakes the others.
// REQUIRES: the caller is a member of the group
DistributedContext::Objects DistributedContext::exchange(std::string_view function,
                                                         const Call& call, std::any own,
                                                         const std::optional<int>& root,
                                                         Location location) {
  const CollectiveFingerprint fingerprint{
      .function = function, .kind = CollectiveKind::objects, .root = root, .location = location};
  const auto [arrived, flight] = arrive(call, fingerprint, {});
  InCollective in(torch_.simulation(), *call.group, fingerprint, arrived.sequence, flight);
  in.started();
  std::shared_ptr<State::ObjectExchange>& entry = state_->object_exchanges[arrived.operation];
  if (entry == nullptr) entry = std::make_shared<State::ObjectExchange>(call.group->size());
  const std::shared_ptr<State::ObjectExchange> meeting = entry;
  meeting->objects[static_cast<std::size_t>(call.rank)] = std::move(own);
  if (++meeting->arrived == call.group->size()) {
    state_->object_exchanges.erase(arrived.operation);
    meeting->all_have_arrived.notify_all();
  } else {
    meeting->all_have_arrived.wait(torch_.simulation(),
                                   [] { return std::string("the other ranks' objects"); });
  }
  in.completed();
  return Objects(meeting, &meeting->objects);
}

}  // namespace kernbench::distributed
