// Runs user code (ranks, kernels) on fibers, so that it can simply block.
//
// There is no ready queue: only engine events start and resume fibers, so the order of fibers is
// the order of events.  (cancel() is the exception, since the run is over.)  All fibers of a
// scheduler, and its engine, belong to one thread at a time.  "The main stack" is the stack on
// which the engine runs.

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
  // Cancels all fibers, as cancel_all() does.
  // REQUIRES: on the main stack, no fiber in call_on_main(); the engine runs no event of this
  // scheduler afterwards (it is destroyed next, or cleared)
  ~FiberScheduler();
  FiberScheduler(const FiberScheduler&) = delete;
  FiberScheduler& operator=(const FiberScheduler&) = delete;

  sim::Engine& engine() { return engine_; }
  Time now() const { return engine_.now(); }

  // Runs `body` on a fiber, starting with an engine event at now().  An exception that leaves the
  // body ends that fiber alone.  `on_end` is called once, on the main stack, when the fiber is
  // done and its stack is back in the pool; what it throws leaves Engine::run() or cancel().
  // The stack is taken when the fiber starts: then LimitError KB-L001 leaves Engine::run().
  Fiber& spawn(FiberName name, std::function<void()> body, void* local = nullptr,
               FiberEnd on_end = {});

  // Returns the running fiber; nullptr on the main stack.
  Fiber* current() const { return current_.load(std::memory_order_relaxed); }

  // Returns the number of the turn; a turn lasts from a fiber's start or wake to its next park()
  // or its end.  Whoever sees the same number and a fiber twice knows that this fiber, or the main
  // stack for it, has run in between.  Other threads may read current(), turn(), and what was
  // written before the turn.
  std::uint64_t turn() const { return turn_.load(std::memory_order_acquire); }

  // Blocks the current fiber until wake(); `describe` says what it waits for.  If it was woken
  // since it last parked, it blocks for only one turn of the engine, so callers wait in a loop
  // over a condition.
  // Throws Cancelled if the fiber is cancelled before or meanwhile.  In a destructor that runs
  // because an exception propagates, it can neither wait nor throw: it ends the process with
  // KB-R008 and exit code 21.
  // REQUIRES: current() != nullptr
  void park(DescribeWait describe);

  // Has the engine resume a parked fiber at now(), after events that are already due.  Several
  // wakes before it resumes count as one; a fiber that runs or has not started keeps one for its
  // next park().  An abandoned fiber is not affected.
  // REQUIRES: the fiber is not finished
  void wake(Fiber& fiber);
  // The event that wake() schedules: it enters a parked fiber until that parks again, or ends.
  static sim::Event resume_event(Fiber& fiber) {
    return {&FiberScheduler::on_resume, &fiber, fiber.generation_};
  }

  // Returns the fiber that the event starts or resumes; nullptr if it does neither.
  static const Fiber* fiber_of(const sim::Event& event) {
    const bool is_of_fiber = event.function == &on_start || event.function == &on_resume;
    return is_of_fiber ? static_cast<const Fiber*>(event.object) : nullptr;
  }

  // Runs `function` on the main stack, at once, and returns when it has returned; what it throws
  // is thrown here.  It serves work that needs a larger stack than a fiber's, or must not run on a
  // fiber.  `function` must not park, since current() is nullptr in it.
  void call_on_main(FunctionRef<void()> function);

  // Unwinds a fiber before returning: park() throws Cancelled in it, and so does every later
  // park().  A fiber that swallows three of them, or blocks in a destructor while it unwinds, is
  // abandoned: it is parked for good and its stack is leaked.  A fiber that never started just
  // finishes.
  // If this runs in a fiber's call_on_main(), or on that fiber itself, the fiber is only marked:
  // its next park() throws.  Finished and abandoned fibers are not affected.
  void cancel(Fiber& fiber);
  // Cancels all fibers, the youngest first, until only marked ones are left: later ones may refer
  // to the stack of the fiber that spawned them.
  void cancel_all();

  // Parks the running fiber for good: Cancelled has met a noexcept function or a destructor and
  // cannot unwind it.
  // REQUIRES: it is cancelled
  [[noreturn]] void abandon_current();
  // True if the running fiber is cancelled.
  bool is_current_cancelled() const;

  // Returns all fibers that are not finished or abandoned, in order of creation.
  std::vector<Fiber*> live() const;
  std::size_t live_count() const { return live_count_; }
  // The fibers that ignored cancellation, in the order in which they were abandoned.
  const std::vector<Fiber*>& abandoned() const { return abandoned_; }
  const StackPool& stacks() const { return stacks_; }

 private:
  // fiber_switch.cpp: functions that switch stacks, or must be compiled beside those.
  static void on_start(void* fiber, std::uint64_t generation);
  static void on_resume(void* fiber, std::uint64_t generation);
  static void enter(Fiber& fiber);
  static void leave(Fiber& fiber);
  void resume(Fiber& fiber);
  void prepare(Fiber& fiber);
  void settle(Fiber& fiber);
  [[noreturn]] void give_up(Fiber& fiber);
  [[noreturn]] void throw_cancelled(Fiber& fiber);

  // fiber_scheduler.cpp: functions of the life cycle.
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
  std::vector<Fiber*> free_;                    // the last one is reused next
  Fiber* oldest_ = nullptr;
  Fiber* youngest_ = nullptr;
  std::size_t live_count_ = 0;
  std::vector<Fiber*> abandoned_;
  FaultWatch fault_watch_{stacks_, current_};
};

}  // namespace kernbench::runtime
