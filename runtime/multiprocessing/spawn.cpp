#include "runtime/multiprocessing/spawn.h"

#include <fmt/format.h>

#include <deque>
#include <typeinfo>

#include "runtime/context/runtime_context.h"
#include "runtime/multiprocessing/demangle.h"
#include "sim_engine/base/check.h"

namespace kernbench::multiprocessing {

namespace {

using runtime::Completion;
using runtime::Fiber;
using runtime::FiberLocal;
using runtime::FiberResult;

struct Failure {
  std::string text;  // "boom (std::runtime_error)"
  ExitCode exit_code = ExitCode::worker_failed;
  bool passes_unchanged = false;  // it is not about this rank alone
};

Failure inspect(const std::exception_ptr& exception) {
  try {
    std::rethrow_exception(exception);
  } catch (const DeadlockError& error) {
    return {error.what(), error.exit_code(), true};
  } catch (const CollectiveMismatchError& error) {
    return {error.what(), error.exit_code(), true};
  } catch (const InternalError& error) {
    return {error.what(), ExitCode::internal, true};
  } catch (const Error& error) {
    return {error.what(), error.exit_code()};
  } catch (const std::exception& error) {
    return {fmt::format("{} ({})", error.what(), demangle(typeid(error).name()))};
  } catch (...) {
    return {"an exception that is no std::exception"};
  }
}

bool is_deadlock(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const DeadlockError&) {
    return true;
  } catch (...) {
    return false;
  }
}

}  // namespace

// The ranks of one spawn().
class World {
 public:
  // `ends` is called on a rank's fiber behind its body, `returned` when it has returned.
  World(RuntimeContext& torch, int nprocs, std::function<void(int)> body,
        std::function<void()> ends, std::function<void(int)> returned)
      : torch_(torch),
        body_(std::move(body)),
        ends_(std::move(ends)),
        returned_(std::move(returned)),
        running_(nprocs) {
    for (int rank = 0; rank < nprocs; ++rank) start(rank);
  }

  bool join();
  bool is_over() const { return is_over_; }

 private:
  struct Rank {
    FiberLocal local;
    Fiber* fiber = nullptr;
    bool ended = false;
  };

  void start(int number);
  void ended(Rank& rank, const FiberResult& result);
  void failed(const Rank& rank, const std::exception_ptr& exception);
  std::string state_of(const Rank& rank) const;

  RuntimeContext& torch_;
  const std::function<void(int)> body_;
  const std::function<void()> ends_;
  const std::function<void(int)> returned_;
  int running_;
  std::deque<Rank> ranks_;  // addresses stay
  Completion all_returned_{torch_.simulation()};
  bool is_over_ = false;  // joined
  std::exception_ptr failure_;
};

void World::start(int number) {
  Rank& rank = ranks_.emplace_back();
  rank.local.kind = FiberLocal::Kind::rank;
  rank.local.rank = number;
  rank.fiber = &torch_.simulation().fibers().spawn(
      runtime::FiberName(runtime::write_name),
      [this, number] {
        body_(number);
        ends_();
      },
      &rank.local, [this, &rank](Fiber&, const FiberResult& result) { ended(rank, result); });
}

void World::ended(Rank& rank, const FiberResult& result) {
  rank.ended = true;
  if (result.how == FiberResult::How::threw) failed(rank, result.exception);
  if (result.how != FiberResult::How::returned) return;
  try {
    returned_(rank.local.rank);
  } catch (const DeadlockError&) {  // others wait for it
    torch_.simulation().fail(std::current_exception());
  }
  if (--running_ == 0) all_returned_.signal();
}

std::string World::state_of(const Rank& rank) const {
  if (rank.ended) return "had returned";
  switch (rank.fiber->state()) {
    case Fiber::State::starting:
      return "had not started";
    case Fiber::State::waiting: {
      const FiberLocal::Activity& collective = rank.local.collective;
      return "waited for " + (collective ? collective.describe() : rank.fiber->waits_for());
    }
    default:
      return "was ready to run";
  }
}

void World::failed(const Rank& rank, const std::exception_ptr& exception) {
  runtime::Simulation& simulation = torch_.simulation();
  if (simulation.has_failed()) return;  // while it was unwound
  const Failure failure = inspect(exception);
  if (failure.passes_unchanged) {
    simulation.fail(exception);
    return;
  }
  std::string text =
      fmt::format("-- Process {} terminated with the following error:\n  rank {}: {}\n  at t={}",
                  rank.local.rank, rank.local.rank, failure.text, to_string(simulation.now()));
  for (const Rank& other : ranks_) {
    if (&other == &rank) continue;
    text += fmt::format("\n  rank {} {}", other.local.rank, state_of(other));
  }
  simulation.fail(
      std::make_exception_ptr(SpawnException(rank.local.rank, exception, failure.exit_code, text)));
}

bool World::join() {
  if (is_over_) {
    if (failure_ != nullptr) std::rethrow_exception(failure_);
    return true;
  }
  is_over_ = true;
  try {
    torch_.simulation().wait(all_returned_, [] { return std::string("the ranks"); });
  } catch (...) {
    failure_ = std::current_exception();
  }
  if (failure_ == nullptr) {
    torch_.simulation().release(this);
    return true;
  }
  // A deadlock may come of a failure that nobody has looked at.
  const std::exception_ptr cause = torch_.distributed.unnoticed_failure();
  torch_.distributed.run_abandoned();
  if (cause != nullptr && is_deadlock(failure_)) failure_ = cause;
  std::rethrow_exception(failure_);
}

bool ProcessContext::join() {
  return world_->join();
}

ProcessContext Multiprocessing::start(int nprocs, std::function<void(int)> body) {
  const FiberLocal& local = torch_.simulation().local();
  if (torch_.simulation().fibers().current() != nullptr) {
    const char* where = local.kind == FiberLocal::Kind::rank ? "a worker" : "a kernel";
    throw CollectiveError(
        "KB-R004", fmt::format("spawn() inside {} (rank {}): nested worlds are not supported",
                               where, local.rank));
  }
  if (const auto last = last_.lock(); last != nullptr && !last->is_over()) {
    throw CollectiveError("KB-R004", "spawn() while the ranks of another one run: join() it first");
  }
  if (nprocs < 1) throw CollectiveError("KB-R010", fmt::format("spawn: nprocs is {}", nprocs));
  torch_.distributed.ranks_start(nprocs);
  const auto world = std::make_shared<World>(
      torch_, nprocs, std::move(body), [this] { torch_.distributed.rank_ends(); },
      [this](int rank) { torch_.distributed.rank_returned(rank); });
  torch_.simulation().keep(world);
  last_ = world;
  return ProcessContext(world);
}

}  // namespace kernbench::multiprocessing
