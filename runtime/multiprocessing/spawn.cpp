#include "runtime/multiprocessing/spawn.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <deque>
#include <span>

#include "runtime/distributed/distributed_state.h"
#include "runtime/distributed/folded_ranks.h"
#include "runtime/guards/failure.h"
#include "runtime/multiprocessing/host_room.h"
#include "runtime/multiprocessing/rank_failure.h"
#include "runtime/simulation/simulation.h"
#include "runtime/stream/rank_streams.h"
#include "sim_engine/base/check.h"
#include "sim_engine/base/visible_text.h"
#include "sim_engine/components/machine_faults.h"

namespace kernbench::multiprocessing {

namespace {

using distributed::DistributedContext;
using runtime::Completion;
using runtime::Fiber;
using runtime::FiberLocal;
using runtime::FiberResult;
using runtime::LogTopic;

}  // namespace

// The ranks of one spawn().
class World final : private runtime::Watchdog::Ranks {
 public:
  World(runtime::Simulation& simulation, DistributedContext& distributed, int nprocs,
        std::function<void(int)> body)
      : simulation_(simulation),
        distributed_(distributed),
        body_(std::move(body)),
        nprocs_(nprocs) {}
  ~World() override { context_ends(); }
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  // Begins all ranks.  If it throws, those that have begun exist.
  void start_ranks();
  bool join();
  // From now on nothing of the context may be used, since it is being destroyed.
  void context_ends();
  bool is_over() const { return is_over_; }
  // Describes the ranks that have not returned: "rank 0 waited for all_reduce#0 ..., rank 3 was
  // ready to run".
  std::vector<std::string> unfinished() const;

 private:
  struct Rank {
    FiberLocal local;
    Fiber* fiber = nullptr;
    std::atomic<bool> ended = false;  // the process's watch reads it too
  };

  // A rank's exception.
  struct Raised {
    const Rank* rank;
    std::exception_ptr exception;
    RankFailure failure;
  };

  void start(int number);
  void start_late(int number);
  void print_state(int descriptor) const override;
  void ended(Rank& rank, const FiberResult& result);
  void raised(const Rank& rank, const std::exception_ptr& exception);
  void fail(std::uint64_t);
  void given_up(const Rank& rank) const;
  std::string describe_state(const Rank& rank) const;
  void fail_with(std::exception_ptr failure);
  std::string others() const;
  std::string suppressed() const;

  runtime::Simulation& simulation_;
  DistributedContext& distributed_;
  const std::function<void(int)> body_;
  const int nprocs_;
  int running_ = 0;
  std::deque<Rank> ranks_;  // addresses stay
  Completion all_returned_{simulation_};
  bool has_context_ = true;
  bool is_over_ = false;  // joined
  std::vector<Raised> raised_;
  std::exception_ptr failure_;
};

void World::start_ranks() {
  runtime::Watchdog& watchdog = simulation_.watchdog();
  watchdog.start();
  const sim::Folding& folding = simulation_.machine().folding();
  for (int rank = 0; rank < nprocs_; ++rank) running_ += folding.is_simulated(rank);
  for (int rank = 0; rank < nprocs_; ++rank) {
    if (folding.is_simulated(rank)) start(rank);
  }
  watchdog.set_ranks(*this);
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
  if (result.how == FiberResult::How::threw) raised(rank, result.exception);
  if (result.how == FiberResult::How::abandoned) given_up(rank);
  if (result.how != FiberResult::How::returned) return;
  try {
    const sim::Folding& folding = simulation_.machine().folding();
    distributed_.state_->rank_returned(rank.local.rank);
    for (int other = 0; other < nprocs_ && folding.is_on(); ++other) {
      const bool is_follower = other != rank.local.rank &&
                               folding.first_of(other) == rank.local.rank;
      if (is_follower) distributed_.state_->rank_returned(other);
    }
  } catch (const DeadlockError&) {  // others wait for it
    // If a rank has raised, this deadlock may be the consequence.
    if (raised_.empty()) fail_with(std::current_exception());
  }
  if (--running_ == 0) all_returned_.signal();
}

std::string World::describe_state(const Rank& rank) const {
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
             ignored < 3 ? "waits in a destructor or a noexcept function although the run is over"
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

bool ProcessContext::join() {
  return world_->join();
}

// Stays silent while an exception propagates: that explains why workers are unfinished.
void Multiprocessing::report_unfinished() const {
  const auto last = last_.lock();
  if (last == nullptr || last->is_over() || std::uncaught_exceptions() > 0) return;
  const std::vector<std::string> ranks = last->unfinished();
  if (ranks.empty()) return;
  fmt::print(stderr,
             "kernbench: warning: [KB-R013] the context ends with {} unfinished worker{}, which {} "
             "unwound ({}); join() them first\n",
             ranks.size(), ranks.size() == 1 ? "" : "s", ranks.size() == 1 ? "is" : "are",
             visible(fmt::format("{}", fmt::join(ranks, ", "))));
}

void Multiprocessing::context_ends() {
  for (const std::weak_ptr<World>& kept : worlds_) {
    if (const auto world = kept.lock()) world->context_ends();
  }
}

std::size_t Multiprocessing::find_stand_in(std::size_t rank) const {
  const sim::Folding& folding = simulation_.machine().folding();
  return static_cast<std::size_t>(folding.first_of(static_cast<int>(rank)));
}

ProcessContext Multiprocessing::start(int nprocs, std::function<void(int)> body) {
  const FiberLocal& local = simulation_.local();
  if (simulation_.fibers().current() != nullptr) {
    const char* where = local.kind == FiberLocal::Kind::rank ? "a worker" : "a kernel";
    throw CollectiveError("KB-R004", "spawn() inside {} (rank {}): nested worlds are not supported",
                          where, local.rank);
  }
  if (const auto last = last_.lock(); last != nullptr && !last->is_over()) {
    throw CollectiveError("KB-R004", "spawn() while the ranks of another one run: join() it first");
  }
  if (nprocs < 1) throw CollectiveError("KB-R010", "spawn: nprocs is {}", nprocs);
  check_has_room(nprocs);
  distributed::check_can_be_alike(simulation_, nprocs);
  runtime::synchronize(simulation_);  // ranks may use what the driver has launched
  distributed_.state_->ranks_start(nprocs);
  simulation_.attachments().forget_ranks();  // of a run that failed and was not joined
  const auto world = std::make_shared<World>(simulation_, distributed_, nprocs, std::move(body));
  simulation_.keep(world);
  last_ = world;
  std::erase_if(worlds_, [](const std::weak_ptr<World>& kept) { return kept.expired(); });
  worlds_.push_back(world);
  try {
    world->start_ranks();
  } catch (...) {  // the host has no room for them
    simulation_.abandon();
    distributed_.state_->run_abandoned();
    throw;
  }
  return ProcessContext(world);
}

}  // namespace kernbench::multiprocessing
