// Turns a call of torch.distributed into work: it arrives at the ledger, is compared, and is run
// by the backend.

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "runtime/distributed/aliasing.h"
#include "runtime/distributed/called_collectives.h"
#include "runtime/distributed/distributed.h"
#include "runtime/distributed/distributed_state.h"
#include "runtime/distributed/fingerprint.h"
#include "runtime/distributed/fixed_point.h"
#include "runtime/distributed/folded_ranks.h"
#include "runtime/distributed/in_collective.h"
#include "runtime/distributed/misuse.h"
#include "runtime/simulation/gate.h"
#include "runtime/stream/rank_streams.h"
#include "runtime/tensor/tensor_storage.h"

namespace kernbench::distributed {

using runtime::FiberLocal;

namespace {

std::vector<Tensor> collect_tensors(const std::vector<Block>& blocks) {
  std::vector<Tensor> tensors;
  for (const Block& block : blocks) {
    if (tensors.empty() || tensors.back().storage() != block.tensor.storage()) {
      tensors.push_back(block.tensor);
    }
  }
  return tensors;
}

// True if the call makes a partial tensor replicated.
bool changes_placement(const CollectiveCall& call) {
  return std::ranges::any_of(
      call.takes, [](const Block& block) { return runtime::is_sum(*block.tensor.storage()); });
}

int device_of(const CollectiveCall& call) {
  return (call.takes.empty() ? call.gives : call.takes).front().tensor.device();
}

void check_one_device(const CollectiveCall& call) {
  std::optional<int> device;
  for (const auto* blocks : {&call.gives, &call.takes}) {
    for (const Block& block : *blocks) {
      const int own = block.tensor.device();
      if (device.value_or(own) != own) {
        wrong_argument(
            fmt::format("{}: its tensors lie on devices {} and {}; those of one call must lie on "
                        "one device",
                        call.event.function, std::min(*device, own), std::max(*device, own)));
      }
      device = own;
    }
  }
}

// Throws CollectiveError KB-G003 if an operation under way forbids the call (data_under_way.h).
void check_tensors_are_free(const CollectiveCall& call) {
  const runtime::Timeline* const stream = call.group->timeline(call.rank).get();
  const auto what = [&] { return describe_in_group(call); };
  const runtime::Touch touch = changes(call) ? runtime::Touch::writes : runtime::Touch::reads;
  for (const Tensor& tensor : collect_tensors(call.takes)) {
    runtime::check_may_touch(tensor, touch, what, stream);
  }
  for (const Tensor& tensor : collect_tensors(call.gives)) {
    runtime::check_may_touch(tensor, runtime::Touch::reads, what, stream);
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
      "no progress: rank {} has called {} collectives by t={} that {}, and caught the error each "
      "time",
      simulation.local().rank, std::max(own - least, refused), to_string(simulation.now()),
      refused > 0 ? "were refused" : "others have left")));
  simulation.fibers().park([] { return std::string("the end of the run"); });
}

}  // namespace

// Returns nullptr if the caller is no member; it has been warned.
Group* DistributedContext::State::group_of_caller(std::string_view function,
                                                  const ProcessGroup& group) const {
  default_backend();
  runtime::check_outside_kernels(*simulation, function);
  simulation->stop_if_dead();
  if (backend->has_single_driver() && local().rank > 0) {
    throw CollectiveError(
        "KB-C006",
        "rank {} called {}, but the ranks of this group are {} PEs, for which a single driver "
        "calls: call it outside spawn(), or take world_size out of ccl.yaml",
        local().rank, function, backend->world_size());
  }
  if (!world->rank_of(local().rank)) {
    throw CollectiveError(
        "KB-C006", "rank {} is not a member of the default group of {} ranks{}", local().rank,
        world->size(), whole_world == nullptr ? "" : ", from which shrink_group has excluded it");
  }
  Group* const found = member_group(group);
  if (found != nullptr) return found;
  fmt::print(stderr,
             "kernbench: warning: Running {} on global rank {} which does not belong to the given "
             "group.\n",
             function, local().rank);
  return nullptr;
}

std::optional<CollectiveCall> DistributedContext::State::begin(std::string_view function,
                                                               CollectiveKind kind,
                                                               const CollectiveOptions& options,
                                                               Location location) const {
  Group* const found = group_of_caller(function, options.group);
  if (found == nullptr) return std::nullopt;
  const int rank = *found->rank_of(local().rank);
  return CollectiveCall{
      .event = {.function = function,
                .location = location,
                .group = found->number,
                .sequence = static_cast<std::int64_t>(found->ledger.next_sequence(rank)),
                .is_async = options.async_op},
      .kind = kind,
      .reproducible = traits_of(kind).reduces ? options.reproducible : Reproducible::run,
      .group = found,
      .rank = rank,
      .is_for_all = backend->has_single_driver()};
}

// Enters the properties of its tensor that ranks compare.  The placement of a partial tensor is the
// one it will have when the operations issued before are done, which may sum it up.
void DistributedContext::State::note_tensor(CollectiveCall& call) const {
  if (call.gives.empty() && call.takes.empty()) return;  // a barrier
  const Tensor& x = distributed::compared_tensor(call);
  call.event.has_tensor = true;
  call.event.shape = x.shape();
  call.event.dtype = x.dtype();
  call.placement = x.dp();
  if (!is_partial(call.placement)) return;
  const auto own = works.find(local().rank);
  const bool will_be_summed =
      own != works.end() &&
      std::ranges::any_of(own->second.all, [&](const auto& work) { return work->will_write(x); });
  if (will_be_summed) call.placement = summed(call.placement);
}

// The call is recorded, and compared with those of the other ranks.
CallRecord DistributedContext::State::arrive(CollectiveCall& call) {
  CollectiveLedger& ledger = call.group->ledger;
  if (local().kind == FiberLocal::Kind::unbound) {  // no spawn(): nobody else will come
    for (int rank = 0; rank < call.group->size(); ++rank) {
      if (rank != call.rank) ledger.leave(rank, false);
    }
  }
  check_can_be_alike(*simulation, call, *backend);
  check_followers_have_groups(*call.group);
  const CallRecord record(*simulation, call.event, [&] { return describe_in_group(call); });
  refuse_if_failed(*call.group);
  try {
    const std::uint64_t operation = simulation->next_operation();
    if (call.reproducible == Reproducible::ranks) simulation->next_operation();  // of the sum
    call.operation = ledger.arrive(call, operation);
    ledger.arrive_for_others(call, simulation->machine().folding());
    simulation->begin(call.operation);
    return record;
  } catch (const Error&) {
    stop_if_endless(*simulation, *call.group, call.rank);
    throw;
  }
}

void DistributedContext::State::refuse_if_failed(Group& group) const {
  const int rank = *group.rank_of(local().rank);
  try {
    group.ledger.refuse_if_failed(rank);
  } catch (const DistBackendError&) {
    stop_if_endless(*simulation, group, rank);
    throw;
  }
}

// A call that has arrived, with all that it needs to run, since its group may be destroyed
// meanwhile.
struct DistributedContext::State::Issued {
  CollectiveCall call;
  CallRecord record;
  std::shared_ptr<Group> group;
  std::shared_ptr<Communicator> communicator;
  std::shared_ptr<Work::State> previous;        // the rank's call before it in the group
  std::shared_ptr<Work::State> work = nullptr;  // its own, if it was issued with async_op
};

// A rank's collectives of one group run one after the other, as on a stream of their own.
Work DistributedContext::State::issue(CollectiveCall call) {
  delay_call();
  if (backend->runs_on_streams()) runtime::issue(*simulation);
  const bool queued = is_queued(call);
  if (!queued) wait_for_stream(call);
  check_one_device(call);
  check_are_apart(call.event.function, output_list_name(call.kind), call.takes);
  note_tensor(call);
  check_tensors_are_free(call);
  // Everything that this rank alone can get wrong has been checked by now: once the call has
  // arrived, the other ranks count on it.
  const CallRecord record = arrive(call);
  simulation->attachments().get<CalledCollectives>().count(local().rank, call.event);
  Group& group = *call.group;
  const int rank = call.rank;
  Issued issued{.call = std::move(call),
                .record = record,
                .group = group.shared_from_this(),
                .communicator = ensure_communicator(group),
                .previous = group.last_work(rank)};
  if (issued.call.event.is_async) return run_beside(std::move(issued), queued);
  if (queued && !changes_nothing(issued.call)) {
    run_beside(std::move(issued), queued).wait();  // holds up the stream
    return {};
  }
  run(issued);
  group.timeline(rank)->know(issued_count);  // run() waited for the calls before it
  return {};
}

Work DistributedContext::State::run_beside(Issued issued, bool queued) {
  const CollectiveCall& call = issued.call;
  const std::shared_ptr<Work::State> work = make_work(
      issued.record, *call.group, describe_in_group(call), call.group->timeline(call.rank));
  std::vector<Tensor> written = collect_tensors(call.takes);
  const bool is_written = changes(call);
  for (const Tensor& tensor : collect_tensors(call.gives)) work->keep(tensor, false);
  for (const Tensor& tensor : written) work->keep(tensor, is_written);
  issued.work = work;
  work->holds_up_host = changes_placement(call);
  const bool has_tensor = !call.gives.empty() || !call.takes.empty();
  work->device = has_tensor ? device_of(call) : local().device;
  call.group->last_work(call.rank) = work;
  // A call that changes nothing, and has no call to wait for, completes at once without a fiber.
  const bool is_next = issued.previous == nullptr || issued.previous->is_done;
  if (is_next && changes_nothing(call)) {
    run(issued);
    work->ended_on_device = work->instant();
    work->finish(nullptr);
  } else {
    CollectiveStream* const stream = queued ? &ensure_stream(call) : nullptr;
    std::function<void()> body = [this, issued = std::move(issued)] { run(issued); };
    queued ? enqueue(work, *stream, std::move(body)) : start(work, std::move(body));
  }
  return Work(work, std::move(written));
}

// A collective that makes a partial tensor replicated blocks its rank, since the rank reads how the
// tensor lies, or with async_op who waits for it; so does a barrier, and a driver that calls for
// several devices.
bool DistributedContext::State::is_queued(const CollectiveCall& call) const {
  return simulation->queues_launches() && backend->runs_on_streams() &&
         !backend->has_single_driver() && call.kind != CollectiveKind::barrier &&
         (call.event.is_async || !changes_placement(call));
}

// A call that blocks the host begins after all that the host has launched before.
void DistributedContext::State::wait_for_stream(const CollectiveCall& call) const {
  if (!simulation->queues_launches()) return;
  const bool has_tensor = !call.gives.empty() || !call.takes.empty();
  const int device = has_tensor ? device_of(call) : local().device;
  runtime::synchronize_current_stream(*simulation, device);
}

void DistributedContext::State::run(const Issued& issued) const {
  run_to_death([&] { run_in_turn(issued); });
}

void DistributedContext::State::run_to_death(runtime::FunctionRef<void()> collective) const {
  std::exception_ptr failure;
  try {
    collective();
  } catch (const DistBackendError&) {
    failure = std::current_exception();
  }
  simulation->stop_if_dead();
  if (failure != nullptr) std::rethrow_exception(failure);
}

void DistributedContext::State::run_in_turn(const Issued& issued) const {
  const CollectiveCall& call = issued.call;
  const auto describe = [&] { return describe_in_group(call); };
  FiberLocal& own = local();
  const InCollective in(own, call);
  if (const auto& previous = issued.previous) {
    // A fiber on the device learns of the end of the call before it at once, and the host later by
    // the way of the news.
    const auto wait = own.is_on_device ? &Work::State::wait_on_device : &Work::State::wait;
    const auto what = [&] { return fmt::format("{} before it", previous->description); };
    ((*previous).*wait)(what);
  }
  const CollectiveLedger& ledger = issued.group->ledger;
  if (ledger.has_given_up(call.operation)) std::rethrow_exception(ledger.failure());
  const runtime::CollectiveUnderWay on_device(simulation->activity(), own.device,
                                              issued.group->number);
  issued.record.started(describe);
  if (issued.work != nullptr) issued.work->started = issued.work->instant();
  if (!changes_nothing(call)) {
    // The algorithm is recorded before the run, which may never end.
    Communicator& communicator = *issued.communicator;
    if (call.reproducible == Reproducible::ranks) {
      run_in_fixed_point(
          *simulation, communicator, call, member_count(*call.group),
          [&](const CollectiveCall& sum) { issued.record.runs_by(communicator.runs_by(sum)); });
    } else {
      issued.record.runs_by(communicator.runs_by(call));
      run_on_snapshots_if_aliased(communicator, call);
    }
  }
  observe(call);
  issued.record.ended();
  if (!call.event.is_async) issued.record.completed(describe);  // else its Work completes it
}

// True for a group of one whose output is already its input.  (If PEs are the ranks, a single
// caller is not the only member.)
bool DistributedContext::State::changes_nothing(const CollectiveCall& call) const {
  if (call.group->size() > 1 || backend->world_size() != backend->caller_count()) return false;
  if (call.gives.empty()) return true;  // a barrier
  const Block& gives = call.gives.front();
  const Block& takes = call.takes.front();
  return gives.tensor.storage() == takes.tensor.storage() && gives.first == takes.first &&
         !runtime::is_sum(*takes.tensor.storage());
}

}  // namespace kernbench::distributed
