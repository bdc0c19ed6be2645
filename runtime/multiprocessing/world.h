// The ranks of one spawn(), each on a fiber of its own.

#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/distributed/distributed.h"
#include "runtime/fiber/fiber.h"
#include "runtime/fiber/fiber_local.h"
#include "runtime/guards/watchdog.h"
#include "runtime/multiprocessing/rank_failure.h"
#include "runtime/simulation/simulation.h"

namespace kernbench::multiprocessing {

class World final : public std::enable_shared_from_this<World>, private runtime::Watchdog::Ranks {
 public:
  World(runtime::Simulation& simulation, distributed::DistributedContext& distributed, int nprocs,
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
    runtime::FiberLocal local;
    runtime::Fiber* fiber = nullptr;
    std::atomic<bool> ended = false;  // the process's watch reads it too
    bool is_lost = false;             // it has died, and the others know of it
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
  void schedule_detections();
  struct Detection;
  void lose(int number);
  void unwind_lost_ranks();
  void ended(Rank& rank, const runtime::FiberResult& result);
  void note_return(const Rank& rank);
  void raised(const Rank& rank, const std::exception_ptr& exception);
  void fail(std::uint64_t);
  void given_up(const Rank& rank) const;
  std::string describe_state(const Rank& rank) const;
  void fail_with(std::exception_ptr failure);
  std::string others() const;
  std::string suppressed() const;

  runtime::Simulation& simulation_;
  distributed::DistributedContext& distributed_;
  const std::function<void(int)> body_;
  const int nprocs_;
  int running_ = 0;
  std::deque<Rank> ranks_;    // addresses stay
  runtime::Completion all_returned_{simulation_};
  bool has_context_ = true;
  bool is_over_ = false;  // joined
  std::vector<Raised> raised_;
  std::exception_ptr failure_;
};

}  // namespace kernbench::multiprocessing
