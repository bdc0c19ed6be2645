// Tells, and at last ends, what keeps the processor without a word: nothing else could, as all that
// simulates is on that one thread.

#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string_view>

#include "runtime/context/run_limits.h"
#include "runtime/fiber/fiber_scheduler.h"

namespace kernbench::runtime {

struct FiberLocal;

// One per context.  The process's watch (ProcessWatch) looks ten times per limit at which fiber
// runs.
//   A kernel found in the same turn for `kernel_time` has run so long without yielding: KB-D003.
//   A rank found in the same turn for `rank_notice` waits for nothing, whatever it calls: it is
//   named on standard error with its last call, again when it has run for twice as long each time,
//   and ends the process with KB-D004 after `rank_time`.  What the main stack computes for it (a
//   host read evaluates what it reads) does not count.
// Both ends have exit code 20.  What is read is atomic, or has not changed since the fiber was
// entered, so simulation pays no more than a few stores, and its results do not depend on this.
//
// Looks are counted, not a clock read, so that a process which was stopped and goes on is not taken
// for one that hangs; nor is one under a debugger.
class Watchdog {
 public:
  // REQUIRES: fibers outlives this, and their Fiber::local() is null or a FiberLocal
  Watchdog(const FiberScheduler& fibers, const RunLimits& limits);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  // From now on.  May be called any number of times.  Throws LimitError KB-L003 if the host has no
  // thread for the process's watch.
  void start();

  // Ranks, as the watching thread sees them.
  class Ranks {
   public:
    virtual ~Ranks() = default;
    // Writes a line for each of them to a descriptor.
    virtual void print_state(int descriptor) const = 0;
  };
  // Visits the watchdogs that run now.  When it returns, the ones before are not looked at any
  // more.
  void set_ranks(const Ranks& ranks);
  // They have ended, if they are those.
  void forget_ranks(const Ranks& ranks);

  // For the process's watch, on its own thread.

  // How long to pause between looks.
  std::chrono::milliseconds pause() const { return pause_; }
  void look();
  // Describes what runs at present, if it is a rank or a kernel: "rank 1 runs; its last call: ...".
  void print_running(int descriptor) const;
  void print_state(int descriptor) const;

  bool is_started() const { return is_started_; }
  std::chrono::steady_clock::time_point next_look;

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
  std::uint64_t seen_turn_ = 0;  // by the last look
  Duration turn_time_{0};        // for how long at least the fiber has run in it
  Duration next_notice_;
};

// "rank 1", "; its last call: all_reduce#2 at worker.cpp:17": what may be read of a rank on another
// thread, or in a signal's handler, as long as the rank exists.  Written into the buffer; returns
// its length.
std::size_t write_last_call(const FiberLocal& local, std::span<char> buffer) noexcept;

}  // namespace kernbench::runtime
