// The operations that ranks have issued and that run beside them.

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <ranges>
#include <set>

#include "runtime/distributed/collective_stream.h"
#include "runtime/distributed/distributed_state.h"
#include "runtime/stream/rank_streams.h"
#include "sim_engine/components/launcher.h"

namespace kernbench::distributed {

using runtime::FiberLocal;

namespace {

// A work that is done implies that all works before it on its stream are done.
void forget_what_is_settled(std::vector<std::shared_ptr<Work::State>>& works) {
  std::set<const runtime::Timeline*> later;  // never iterated
  for (std::shared_ptr<Work::State>& work : std::views::reverse(works)) {
    const bool is_last = later.insert(work->operation->stream.get()).second;
    const bool is_covered = !is_last && work->is_done && work->failure == nullptr;
    if (is_covered || work->is_settled()) work.reset();
  }
  std::erase(works, nullptr);
}

}  // namespace

// Operations with the same `stream` end in the order of their issue.
std::shared_ptr<Work::State> DistributedContext::State::make_work(
    const CallRecord& record, Group& group, std::string description,
    std::shared_ptr<runtime::Timeline> stream) {
  constexpr std::size_t kLeast = 16;
  Works& own = works[local().rank];
  // Works are forgotten in bulk when their number has doubled, so that each costs O(1).
  if (own.all.size() >= own.forget_at) {
    forget_what_is_settled(own.all);
    own.forget_at = std::max(kLeast, 2 * own.all.size());
  }
  const auto operation = std::make_shared<runtime::OperationUnderWay>(
      runtime::OperationUnderWay{.description = std::move(description),
                                 .number = ++issued_count,
                                 .stream = std::move(stream),
                                 .rank = own.timeline});
  auto work = std::make_shared<Work::State>(simulation, record, operation, group.weak_from_this());
  return own.all.emplace_back(std::move(work));
}

// The caller's stream of the call's group.
CollectiveStream& DistributedContext::State::ensure_stream(const CollectiveCall& call) const {
  std::shared_ptr<CollectiveStream>& stream = call.group->stream(call.rank);
  if (stream == nullptr) {
    stream = std::make_shared<CollectiveStream>(
        *simulation, local().rank,
        [this](const auto& work, const auto& result) { ended(work, result); });
  }
  return *stream;
}

// Runs `body` behind the rank's earlier collectives of the group, and behind its current stream.
void DistributedContext::State::enqueue(const std::shared_ptr<Work::State>& work,
                                        CollectiveStream& stream,
                                        std::function<void()> body) const {
  stream.wait_for_room();
  body = on_stream(work, std::move(body));
  const std::uint64_t write = simulation->next_write();
  work->note_writes(write);
  stream.enqueue({work, std::move(body), write});
}

// Runs `body` on a fiber of its own, which acts for the rank.
void DistributedContext::State::start(const std::shared_ptr<Work::State>& work,
                                      std::function<void()> body) const {
  const auto fiber_local = std::make_shared<FiberLocal>();
  fiber_local->kind = FiberLocal::Kind::work;
  fiber_local->rank = work->record.rank();
  fiber_local->device = local().device;
  fiber_local->write = simulation->next_write();
  work->note_writes(fiber_local->write);
  simulation->fibers().spawn(
      runtime::FiberName(runtime::write_name), std::move(body), fiber_local.get(),
      [this, work, fiber_local](runtime::Fiber&, const runtime::FiberResult& result) {
        ended(work, result);
      });
}

// The device is done with the work, or it is over for another reason.
void DistributedContext::State::ended(const std::shared_ptr<Work::State>& work,
                                      const runtime::FiberResult& result) const {
  work->ended_on_device = work->instant();
  const bool has_returned = result.how == runtime::FiberResult::How::returned;
  if (work->is_on_stream() && has_returned) {
    work->marker->when_known([of = std::weak_ptr(work)] {
      if (const auto ended = of.lock()) ended->finish(nullptr);
    });
    return runtime::Marker::pass(work->marker, *simulation,
                                 simulation->machine().launcher().host_leg(work->device));
  }
  if (work->is_on_stream()) {
    runtime::Marker::pass(work->marker, *simulation, Time{0}, result.exception);
  }
  work->is_aborted = !has_returned && result.how != runtime::FiberResult::How::threw;
  work->finish(result.exception);
}

// Makes a work part of the caller's current stream: it follows what was launched there before.  The
// host learns of its end later than the device.
std::function<void()> DistributedContext::State::on_stream(const std::shared_ptr<Work::State>& work,
                                                           std::function<void()> body) const {
  const auto stream = runtime::shared_current_stream(*simulation, work->device);
  work->marker = std::make_shared<runtime::Marker>();
  work->follows = stream->position().upto();
  runtime::note_beside_streams(*simulation, work->marker, work->description);
  // The device hears of the call only when the host's command has reached it, even if the stream is
  // idle.
  const Time arrives = simulation->now() + simulation->machine().launcher().host_leg(work->device);
  return [this, work, arrives, stream, before = stream->last(), body = std::move(body)] {
    const auto describe = [&] { return work->description; };
    if (before != nullptr) before->wait(*simulation, describe);
    const bool has_failed = before != nullptr && before->failure() != nullptr;
    if (has_failed && stream->failure() != nullptr) {  // and nobody has taken the failure
      std::rethrow_exception(before->failure());
    }
    simulation->sleep(arrives - simulation->now(), describe);
    body();
  };
}

// Waits for all works of the caller, whether they succeed or fail.
void DistributedContext::State::wait_for_works() {
  for (const auto& work : std::vector(works[local().rank].all)) {
    work->wait([&] { return work->describe_wait(); });
  }
  know_all_done(local().rank);
}

void DistributedContext::State::know_all_done(int rank) {
  works[rank].timeline->know(issued_count);
}

// A rank may return before its works are done.  They run to their end, as torch's do, but the rank
// is warned that it should have waited, even if they had ended by then.
void DistributedContext::State::rank_ends() {
  constexpr int kMostWarnings = 5;
  const int rank = local().rank;
  runtime::synchronize(*simulation);
  int left = 0;
  for (auto& all = works[rank].all; !all.empty();) {
    const std::shared_ptr<Work::State> work = std::move(all.back());
    all.pop_back();
    if (work->is_settled()) continue;
    work->wait([&] { return work->describe_wait(); });
    work->know();
    if (work->is_waited_for) continue;
    // Nobody else would ever see the failure of a work that was not waited for.
    if (work->failure != nullptr) std::rethrow_exception(work->failure);
    // A loop that forgets to wait would fill the screen, so only the first ones are named.
    if (++left > kMostWarnings) continue;
    fmt::print(stderr, "kernbench: warning: [KB-C010] rank {} ended without waiting for {}\n", rank,
               work->description);
  }
  if (left > kMostWarnings) {
    fmt::print(stderr, "kernbench: warning: [KB-C010] rank {} ended without waiting for {} more\n",
               rank, left - kMostWarnings);
  }
  know_all_done(rank);
  if (initialized_ranks.contains(rank)) leave_default_group(rank);
}

std::exception_ptr DistributedContext::State::unnoticed_failure() const {
  if (const auto failure = runtime::unnoticed_queued_failure(*simulation, lost_ranks)) {
    return failure;
  }
  for (const auto& [rank, own] : works) {
    if (lost_ranks.contains(rank)) continue;
    for (const std::shared_ptr<Work::State>& work : own.all) {
      if (work->failure != nullptr && !work->is_waited_for) return work->failure;
    }
  }
  return nullptr;
}

}  // namespace kernbench::distributed
