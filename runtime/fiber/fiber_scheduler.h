// Runs user code (ranks, kernels) as fibers, so that it may simply block.
//
// There is no ready queue: a fiber is started and resumed by an engine event and by nothing else,
// so the order of fibers is the order of events.  (cancel() is the exception: the run is over.)
// All fibers of a scheduler, and its engine, belong to one thread at a time.  "The main stack" is
// the one that the engine runs on.

#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "runtime/fiber/fault_watch.h"
#include "runtime/fiber/fiber.h"
#include "runtime/fiber/function_ref.h"
#include "runtime/fiber/stack_pool.h"
#include "sim_engine/core/engine.h"

namespace kernbench::runtime {

class FiberScheduler {
 public:
  explicit FiberScheduler(sim::Engine& engine, const FiberOptions& options = {});
  // As cancel_all().
  // REQUIRES: on the main stack, no fiber in call_on_main(); the engine runs no event of this
  // scheduler afterwards (it is destroyed next, or cleared)
  ~FiberScheduler();
  FiberScheduler(const FiberScheduler&) = delete;
  FiberScheduler& operator=(const FiberScheduler&) = delete;

  sim::Engine& engine() { return engine_; }
  Time now() const { return engine_.now(); }

  // Runs `body` on a fiber, from an engine event at now() on.  What leaves the body ends that fiber
  // and nothing else.  `on_end` is called once, on the main stack, when the fiber is done and its
  // stack has gone back to the pool; what it throws leaves Engine::run() or cancel().
  // The stack is taken when the fiber starts: LimitError KB-L001 leaves Engine::run().
  Fiber& spawn(FiberName name, std::function<void()> body, void* local = nullptr,
               FiberEnd on_end = {});

  // The fiber that is running; nullptr on the main stack.
  Fiber* current() const { return current_.load(std::memory_order_relaxed); }

  // The number of the turn, from a fiber's start or wake to its next park() or its end: the same
  // number, and a fiber, seen twice mean that this fiber has run all the while, or the main stack
  // for it.  These two, and what was written before the turn, may be read by other threads.
  std::uint64_t turn() const { return turn_.load(std::memory_order_acquire); }

  // Blocks the current fiber until wake(), `describe` says what for.  Returns at once, but for one
  // turn of the engine, if it was woken since it last parked: so wait in a loop over a condition.
  // Throws Cancelled if the fiber is cancelled before or meanwhile.  In a destructor that runs
  // because an exception propagates, it ends the process with KB-R008 and exit code 21, since it
  // could neither wait nor throw.
  // REQUIRES: current() != nullptr
  void park(DescribeWait describe);

  // Has the engine resume a parked fiber at now(), after what is already due.  Any number of wakes
  // before it resumes are one; a fiber that runs or has not started keeps one for its next park().
  // Nothing happens to an abandoned fiber.
  // REQUIRES: the fiber is not finished
  void wake(Fiber& fiber);

  // Runs `function` on the main stack, at once, and returns when it does; what it throws is thrown
  // here.  For work that a fiber's stack is too small for, and for what must not be on a fiber.
  // `function` must not park, as current() is nullptr in it.
  void call_on_main(FunctionRef<void()> function);

  // Unwinds a fiber before it returns: park() throws Cancelled in it, and again from every later
  // park().  One that swallows three of them, or blocks in a destructor while it unwinds, is
  // abandoned: parked for good, its stack leaked.  One that never started just finishes.
  // A fiber in whose call_on_main() this runs, the caller itself included, is only marked: its next
  // park() throws.  A finished or abandoned fiber is left alone.
  void cancel(Fiber& fiber);
  // Cancels all, the youngest first, until none is left but those marked: what was spawned later
  // may refer to the stack of who spawned it.
  void cancel_all();

  // Parks the running fiber for good, since Cancelled has met a noexcept function or a destructor
  // on its way and cannot unwind it.
  // REQUIRES: it is cancelled
  [[noreturn]] void abandon_current();
  // True if the running fiber is cancelled.
  bool is_current_cancelled() const;

  // All that are not finished or abandoned, in order of creation.
  std::vector<Fiber*> live() const;
  std::size_t live_count() const { return live_count_; }
  // Those that ignored cancellation, in the order in which they were given up.
  const std::vector<Fiber*>& abandoned() const { return abandoned_; }
  const StackPool& stacks() const { return stacks_; }

 private:
  friend class FiberSwitchProbe;  // benches/micro/fiber_switch_benchmark.cpp

  // fiber_switch.cpp: what switches stacks, or must be compiled beside what does.
  static void on_start(void* fiber, std::uint64_t generation);
  static void on_resume(void* fiber, std::uint64_t generation);
  static void enter(Fiber& fiber);
  static void leave(Fiber& fiber);
  void resume(Fiber& fiber);
  void prepare(Fiber& fiber);
  void settle(Fiber& fiber);
  [[noreturn]] void give_up(Fiber& fiber);
  [[noreturn]] void throw_cancelled(Fiber& fiber);

  // fiber_scheduler.cpp: the life cycle.
  Fiber& take_fiber();
  void link(Fiber& fiber);
  void unlink(Fiber& fiber);
  void schedule_resume(Fiber& fiber);
  void unwind(Fiber& fiber);
  void unwind_all();
  void finish(Fiber& fiber);
  void abandon(Fiber& fiber);
  static void run_body(Fiber& fiber) noexcept;

  sim::Engine& engine_;
  std::atomic<Fiber*> current_ = nullptr;
  std::atomic<std::uint64_t> turn_ = 0;
  StackPool stacks_;
  std::vector<std::unique_ptr<Fiber>> fibers_;  // every object ever made
  std::vector<Fiber*> free_;                    // the last one is the next to be used again
  Fiber* oldest_ = nullptr;
  Fiber* youngest_ = nullptr;
  std::size_t live_count_ = 0;
  std::vector<Fiber*> abandoned_;
  FaultWatch fault_watch_{stacks_, current_};
};

}  // namespace kernbench::runtime
