#include "runtime/multiprocessing/world.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <optional>
#include <span>

#include "runtime/distributed/distributed_state.h"
#include "runtime/guards/failure.h"
#include "runtime/stream/rank_streams.h"
#include "sim_engine/base/error.h"
#include "sim_engine/components/machine_faults.h"
#include "sim_engine/topology/folding.h"

namespace kernbench::multiprocessing {

using runtime::Fiber;
using runtime::FiberLocal;
using runtime::FiberResult;
using runtime::LogTopic;

void World::start_ranks() {
  runtime::Watchdog& watchdog = simulation_.watchdog();
  watchdog.start();
  const sim::Folding& folding = simulation_.machine().folding();
  for (int rank = 0; rank < nprocs_; ++rank) running_ += folding.is_simulated(rank);
  for (int rank = 0; rank < nprocs_; ++rank) {
    if (folding.is_simulated(rank)) start(rank);
  }
  schedule_detections();
  watchdog.set_ranks(*this);
}

// The instant at which the other ranks learn that one has died.  The run may have ended by then.
struct World::Detection {
  runtime::Simulation& simulation;
  std::weak_ptr<World> world;
  int rank = 0;

  void happen(std::uint64_t) {
    if (const auto alive = world.lock()) alive->lose(rank);
    simulation.release(this);
  }
};

void World::schedule_detections() {
  const sim::MachineFaults* const faults = simulation_.machine().faults();
  if (faults == nullptr) return;
  for (int rank = 0; rank < nprocs_; ++rank) {
    const std::optional<Time> when = faults->find_detection(rank);
    if (!when) continue;
    const auto detection =
        std::make_shared<Detection>(Detection{simulation_, weak_from_this(), rank});
    simulation_.keep(detection);
    simulation_.machine().engine().schedule(std::max(*when - simulation_.now(), Time{0}),
                                            sim::Engine::call<&Detection::happen>(detection.get()));
  }
}

// Nobody waits for the rank any more.  Its frames stay until join(), since kernels that it has
// launched may refer to them.
void World::lose(int number) {
  Rank& rank = ranks_[static_cast<std::size_t>(number)];
  if (rank.ended) return;
  rank.is_lost = true;
  distributed_.state_->rank_lost(number);
  if (--running_ == 0) all_returned_.signal();
}

void World::unwind_lost_ranks() {
  for (Rank& rank : ranks_) {
    if (!rank.is_lost || rank.ended) continue;
    runtime::wait_for_streams_of(simulation_, rank.local.rank);
    simulation_.fibers().cancel(*rank.fiber);
  }
  distributed_.state_->ranks_ended();
}

void World::context_ends() {
  if (!std::exchange(has_context_, false)) return;
  simulation_.watchdog().forget_ranks(*this);
}

namespace {

std::string_view describe_present_state(const Fiber& fiber) {
  switch (fiber.state()) {
    case Fiber::State::starting:
      return "has not started";
    case Fiber::State::waiting:
      return "waits";
    case Fiber::State::ready:
      return "is ready to run";
    default:
      return "runs";
  }
}

}  // namespace

// Prints a line for each rank, up to kMost, on the thread of the process's watch.
void World::print_state(int descriptor) const {
  constexpr std::size_t kMost = 64;
  std::string text;
  for (const Rank& rank : ranks_) {
    if (static_cast<std::size_t>(rank.local.rank) >= kMost) break;
    std::array<char, 512> last_call;
    const std::size_t length = runtime::write_last_call(rank.local, last_call);
    text += fmt::format("  rank {} {}; {}\n", rank.local.rank,
                        rank.ended ? "has returned" : describe_present_state(*rank.fiber),
                        std::string_view(last_call.data(), length));
  }
  if (ranks_.size() > kMost) text += fmt::format("  and {} ranks more\n", ranks_.size() - kMost);
  [[maybe_unused]] const ssize_t ignored = ::write(descriptor, text.data(), text.size());
}

void World::start(int number) {
  Rank& rank = ranks_.emplace_back();
  rank.local.kind = FiberLocal::Kind::rank;
  rank.local.rank = number;
  rank.fiber = &simulation_.fibers().spawn(
      runtime::FiberName(runtime::write_name),
      [this, number] {
        simulation_.log(LogTopic::fiber, [] { return "begins"; });
        start_late(number);
        body_(number);
        distributed_.state_->rank_ends();
        simulation_.log(LogTopic::fiber, [] { return "ends"; });
      },
      &rank.local, [this, &rank](Fiber&, const FiberResult& result) { ended(rank, result); });
}

// A fault may let the rank's worker begin later.
void World::start_late(int number) {
  sim::MachineFaults* const faults = simulation_.machine().faults();
  if (faults == nullptr) [[likely]]
    return;
  simulation_.sleep(
      faults->start_delay(number), [] { return std::string("its start"); }, sim::Cause::other);
}

void World::ended(Rank& rank, const FiberResult& result) {
  rank.ended = true;
  if (result.how == FiberResult::How::abandoned) given_up(rank);
  if (rank.is_lost) return;
  if (result.how == FiberResult::How::threw) raised(rank, result.exception);
  if (result.how != FiberResult::How::returned) return;
  note_return(rank);
  if (--running_ == 0) all_returned_.signal();
}

void World::note_return(const Rank& rank) {
  try {
    const sim::Folding& folding = simulation_.machine().folding();
    distributed_.state_->rank_returned(rank.local.rank);
    for (int other = 0; other < nprocs_ && folding.is_on(); ++other) {
      const bool is_follower =
          other != rank.local.rank && folding.first_of(other) == rank.local.rank;
      if (is_follower) distributed_.state_->rank_returned(other);
    }
  } catch (const DeadlockError&) {  // others wait for it
    // If a rank has raised, this deadlock may be the consequence.
    if (raised_.empty()) fail_with(std::current_exception());
  }
}

std::string World::describe_state(const Rank& rank) const {
  if (rank.is_lost) return "had died";
  if (rank.ended) return "had returned";
  switch (rank.fiber->state()) {
    case Fiber::State::starting:
      return "had not started";
    case Fiber::State::waiting: {
      const runtime::Activity* const collective = rank.local.collective;
      return "waited for " +
             (collective == nullptr ? rank.fiber->waits_for() : collective->describe());
    }
    default:
      return "was ready to run";
  }
}

// Ends the run after all events of this instant, so that every rank that fails in it is known, and
// the lowest of them is named.
void World::raised(const Rank& rank, const std::exception_ptr& exception) {
  if (simulation_.has_failed()) return;  // raised while it was unwound
  if (raised_.empty()) {
    simulation_.machine().engine().schedule(Time{0}, sim::Engine::call<&World::fail>(this));
  }
  raised_.push_back({&rank, exception, inspect(exception)});
}

void World::fail(std::uint64_t) {
  if (simulation_.has_failed()) return;
  std::ranges::sort(raised_, {}, [](const Raised& raised) { return raised.rank->local.rank; });
  const auto& [rank, exception, failure] = raised_.front();
  const int number = rank->local.rank;
  if (failure.passes_unchanged) {
    fail_with(exception);
    return;
  }
  const std::string text =
      fmt::format("-- Process {} terminated with the following error:\n  rank {}: {}\n  at t={}",
                  number, number, failure.text, to_string(simulation_.now()));
  fail_with(std::make_exception_ptr(
      SpawnException(number, exception, failure.exit_code, text + others() + suppressed())));
}

// Describes the ranks that have not raised, one line each, up to kMost.
std::string World::others() const {
  constexpr std::size_t kMost = 24;
  std::string text;
  std::size_t count = 0;
  for (const Rank& rank : ranks_) {
    const bool has_raised = std::ranges::find(raised_, &rank, &Raised::rank) != raised_.end();
    if (has_raised || ++count > kMost) continue;
    text += fmt::format("\n  rank {} {}", rank.local.rank, describe_state(rank));
  }
  if (count > kMost) text += fmt::format("\n  and {} ranks more", count - kMost);
  return text;
}

// Whoever drives the engine throws the failure, which need not be join(); join() throws it too.
void World::fail_with(std::exception_ptr failure) {
  failure_ = failure;
  simulation_.fail(std::move(failure));
}

// "suppressed: 9 more (rank 2: boom (std::runtime_error), rank 3: ..., and 7 more)": the first
// line of the first errors.
std::string World::suppressed() const {
  if (raised_.size() == 1) return {};
  constexpr std::size_t kMost = 3;
  const std::span<const Raised> all = std::span(raised_).subspan(1);
  std::vector<std::string> others;
  for (const Raised& raised : all.first(std::min(kMost, all.size()))) {
    const std::string& text = raised.failure.text;
    others.push_back(
        fmt::format("rank {}: {}", raised.rank->local.rank, text.substr(0, text.find('\n'))));
  }
  if (all.size() > kMost) others.push_back(fmt::format("and {} more", all.size() - kMost));
  return fmt::format("\n  suppressed: {} more ({})", all.size(), fmt::join(others, ", "));
}

void World::given_up(const Rank& rank) const {
  const Fiber& fiber = *rank.fiber;
  const std::size_t kib = simulation_.fibers().stacks().stack_bytes() / 1024;
  const int ignored = fiber.ignored_cancellations();
  fmt::print(stderr, "kernbench: warning: [KB-R009] rank {} {}; its stack ({} KiB) is leaked\n",
             rank.local.rank,
             ignored < 3 ? "waits in a destructor or a noexcept function although it is unwound"
                         : fmt::format("ignored cancellation {} times", ignored),
             kib);
}

std::vector<std::string> World::unfinished() const {
  std::vector<std::string> texts;
  for (const Rank& rank : ranks_) {
    if (!rank.ended)
      texts.push_back(fmt::format("rank {} {}", rank.local.rank, describe_state(rank)));
  }
  return texts;
}

namespace {

// Refuses join() in a rank or a kernel, which cannot wait for its own end.
[[noreturn]] void refuse_join(const FiberLocal& local) {
  const bool is_rank = local.kind == FiberLocal::Kind::rank;
  throw CollectiveError("KB-R004",
                        "join() inside {} (rank {}): the ranks cannot wait for themselves; join() "
                        "them where spawn() was called",
                        is_rank ? "a worker" : "a kernel", local.rank);
}

}  // namespace

bool World::join() {
  if (has_context_ && simulation_.fibers().current() != nullptr) {
    refuse_join(simulation_.local());
  }
  if (is_over_) {
    if (failure_ != nullptr) std::rethrow_exception(failure_);
    return true;
  }
  if (!has_context_) {
    throw CollectiveError("KB-R013",
                          "join() after the end of the context: its ranks were unwound with it; "
                          "join() them first");
  }
  is_over_ = true;
  try {
    simulation_.wait(all_returned_, [] { return std::string("the ranks"); });
    unwind_lost_ranks();
  } catch (...) {
    if (failure_ == nullptr) failure_ = std::current_exception();
  }
  simulation_.watchdog().forget_ranks(*this);
  const std::exception_ptr cause =
      failure_ == nullptr ? nullptr : distributed_.state_->unnoticed_failure();
  simulation_.attachments().forget_ranks();
  if (failure_ == nullptr) {
    simulation_.release(this);
    return true;
  }
  distributed_.state_->run_abandoned();
  // A deadlock may be the consequence of a failure that nobody has looked at.
  if (cause != nullptr && is_deadlock(failure_)) failure_ = cause;
  simulation_.flight_recorder().failed(runtime::describe_failure(failure_, {}).code,
                                       simulation_.now());
  std::rethrow_exception(failure_);
}

}  // namespace kernbench::multiprocessing
