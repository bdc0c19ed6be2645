// Reports, and finally ends, a rank or kernel that occupies the processor without yielding.  The
// simulation itself cannot, since all of it runs on that one thread.

#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string_view>

#include "runtime/fiber/fiber_scheduler.h"
#include "runtime/guards/run_limits.h"

namespace kernbench::runtime {

struct FiberLocal;

// Each context has one.  The process's watch (ProcessWatch) looks ten times per limit at the fiber
// that runs.
//   A kernel found in the same turn for `kernel_time` has run so long without yielding: KB-D003.
//   A rank found in the same turn for `rank_notice` waits for nothing, whatever it calls: it is
//   named on standard error with its last call, again when it has run for twice as long each time,
//   and ends the process with KB-D004 after `rank_time`.  The main stack's work for it does not
//   count: a host read, for one, evaluates what it reads.
// Both ends have exit code 20.  The data read here is atomic, or has not changed since the fiber
// was entered, so the simulation pays only a few stores, and its results do not depend on the
// watchdog.
//
// It counts looks instead of reading a clock, so that a process which was stopped and continued,
// or runs under a debugger, does not seem to hang.
class Watchdog {
 public:
  // REQUIRES: fibers outlives this, and their Fiber::local() is null or a FiberLocal
  Watchdog(const FiberScheduler& fibers, const RunLimits& limits);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  // Starts watching.  May be called any number of times.  Throws LimitError KB-L003 if the host
  // has no thread for the process's watch.
  void start();

  // The ranks of a run, as the watching thread sees them.
  class Ranks {
   public:
    virtual ~Ranks() = default;
    // Writes a line for each rank to a descriptor.
    virtual void print_state(int descriptor) const = 0;
  };
  // Looks at these ranks from now on.  When it returns, the previous ones are no longer looked at.
  void set_ranks(const Ranks& ranks);
  // Ends this for `ranks`, if they are the current ones.
  void forget_ranks(const Ranks& ranks);

  // The process's watch calls these, on its own thread.

  // The pause between looks.
  std::chrono::milliseconds pause() const { return pause_; }
  void look();
  // Describes the rank or kernel that runs at present, if any: "rank 1 runs; its last call: ...".
  void print_running(int descriptor) const;
  void print_state(int descriptor) const;

 private:
  using Duration = std::chrono::milliseconds;

  void look_at_kernel(const Fiber& fiber);
  void look_at_rank(const Fiber& fiber);
  bool is_same_turn() const { return fibers_.turn() == seen_turn_; }
  bool print_running_once(int descriptor) const;
  [[noreturn]] static void end(std::string_view text);

  const FiberScheduler& fibers_;
  const RunLimits limits_;
  const Duration pause_;
  bool is_started_ = false;
  const Ranks* ranks_ = nullptr;
  std::uint64_t seen_turn_ = 0;  // turn seen by the last look
  Duration turn_time_{0};        // minimum time for which the fiber has run in that turn
  Duration next_notice_;
};

// Writes "rank 1", "; its last call: all_reduce#2 at worker.cpp:17" into the buffer and returns
// its length.  It reads only what another thread or a signal handler may read while the rank
// exists.
std::size_t write_last_call(const FiberLocal& local, std::span<char> buffer) noexcept;

}  // namespace kernbench::runtime
