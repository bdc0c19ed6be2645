// One simulated system and the fibers that run on it: the foundation of all other code in
// runtime/.
//
// The engine's event queue is the only scheduler.  Code on a fiber waits by parking; code on the
// main stack waits by running the engine until the awaited event has happened (ADR-0027).

#pragma once

#include <pthread.h>

#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/fiber/fiber_local.h"
#include "runtime/fiber/fiber_scheduler.h"
#include "runtime/guards/command_budget.h"
#include "runtime/guards/flight_recorder.h"
#include "runtime/guards/log.h"
#include "runtime/guards/process_guard.h"
#include "runtime/guards/run_limits.h"
#include "runtime/guards/watchdog.h"
#include "runtime/simulation/activity_meter.h"
#include "runtime/simulation/attachments.h"
#include "runtime/simulation/pollers.h"
#include "runtime/simulation/results.h"
#include "runtime/simulation/run_log.h"
#include "runtime/simulation/schedule_choices.h"
#include "runtime/simulation/timed_parts.h"
#include "sim_engine/base/error.h"
#include "sim_engine/components/machine.h"
#include "sim_engine/values/data_executor.h"

namespace kernbench::runtime {

class Simulation;

// An event that happens once; one fiber, or the main stack, may wait for it.
class Completion {
 public:
  explicit Completion(Simulation& simulation) : simulation_(simulation) {}
  Completion(const Completion&) = delete;
  Completion& operator=(const Completion&) = delete;

  bool is_done() const { return done_; }
  void signal();

 private:
  friend class Simulation;

  Simulation& simulation_;
  bool done_ = false;
  Fiber* waiter_ = nullptr;
};

// Something that may happen again and again, and that any number of fibers may wait for.
class Event {
 public:
  // Blocks the current fiber, or drives the engine, until the next notify_all().  Throws what
  // Simulation::wait() does.
  void wait(Simulation& simulation, DescribeWait describe);
  // Wakes all that wait now, in the order in which they came.
  void notify_all();

 private:
  std::vector<Completion*> waiting_;
};

class Simulation {
 public:
  // `evaluation_threads` and `choices` are the values in RuntimeOptions.
  Simulation(const Topology& topology, const sim::MachineOptions& options,
             int evaluation_threads = 0, const RunLimits& limits = {},
             std::shared_ptr<ScheduleChoices> choices = nullptr);
  ~Simulation();

  sim::Machine& machine() { return machine_; }
  const sim::Machine& machine() const { return machine_; }
  const Topology& topology() const { return machine_.topology(); }
  FiberScheduler& fibers() { return fibers_; }
  Time now() const { return machine_.engine().now(); }

  // Returns the state of the code that is running: a rank, a kernel, or the main stack.
  // Throws CollectiveError KB-R016 on another thread than the one that simulates, if one does.
  FiberLocal& local();

  // Returns at once if the completion is done already, else waits.  `describe` is for the deadlock
  // report.
  // Throws Cancelled on a fiber whose run is over; on the main stack, DeadlockError KB-D001 or the
  // failure that fail() was given.
  void wait(Completion& completion, DescribeWait describe);

  // Lets simulated time pass for the caller.  Throws what wait() throws.
  void sleep(Time time, DescribeWait describe, sim::Cause cause = sim::Cause::launch);

  // True if a launch returns to its rank when it is issued (ADR-0190); set before any runs.
  bool queues_launches() const { return queues_launches_; }
  void set_queues_launches(bool queues) { queues_launches_ = queues; }

  // Runs what is due next and lets time advance to it, as a rank that polls does (Pollers).
  // Returns false if no event is left, or in a kernel, where polling is not allowed.
  bool yield();
  // Called by what Engine::schedule_at_standstill() runs.
  void standstill_ends() { pollers_.standstill_ends(); }

  // Ends the run with a failure: whoever drives the engine stops, unwinds all fibers and throws
  // it.  Only the first failure counts.
  void fail(std::exception_ptr failure);
  bool has_failed() const { return failure_ != nullptr; }

  // Calls `beat` on the stack that drives the engine, after each million events, which take the
  // host some seconds at most.  REQUIRES: it throws nothing, and calls nothing of this
  using Beat = std::function<void(Time now, std::uint64_t events)>;
  void set_beat(Beat beat) { beat_ = std::move(beat); }

  // Acts as fail() with Error KB-S001 and this exit code, now or when the engine is driven next.
  // No other method may be called from another thread.
  void interrupt(ExitCode reason);

  // Returns null if nobody explores this run's schedules.
  ScheduleChoices* choices() const { return choices_.get(); }

  CommandBudget& command_budget() { return command_budget_; }
  Watchdog& watchdog() { return watchdog_; }
  FlightRecorder& flight_recorder() { return flight_recorder_; }
  ActivityMeter& activity() { return activity_; }
  const ActivityMeter& activity() const { return activity_; }

  // Writes what text() returns, if KERNBENCH_LOG selects this topic.
  template <class Text>
  void log(LogTopic topic, const Text& text) {
    if (log_.is_on(topic)) [[unlikely]]
      Log::print(topic, now(), name_of_caller(), text());
  }

  sim::HbmAllocator& allocator(int sip) { return machine_.hbm(sip); }

  // Evaluates a value's elements; a fiber switches to the main stack for this.
  template <class Number = float>
  std::vector<Number> read(const sim::Value& value);

  // A launch or collective takes its number from next_operation() and reports it to begin() when
  // it begins (a collective: on each rank).
  std::uint64_t next_operation() { return ++last_operation_; }
  void begin(std::uint64_t operation);

  // Numbers what writes tensors, in the order of issue: a launch that is queued runs later.
  std::uint64_t next_write() { return ++last_write_; }
  std::uint64_t last_write() const { return last_write_; }

  // Results of kernels, in the order of their ends.  At least the last kLeastResults are kept, and
  // at most twice as many; last_results() has all of the operation that began last.
  static constexpr std::size_t kLeastResults = std::size_t{1} << 15;
  void add_result(const KernelResult& result);
  // Profiles the run from now on.
  void keep_run_log();
  // Null unless the run is profiled.
  RunLog* run_log() { return run_log_.get(); }
  const RunLog* run_log() const { return run_log_.get(); }
  // Adds [from, to) to the parts of the run whose time the program reports.  REQUIRES: `to` is not
  // in the future
  void add_timed_part(std::string name, Time from, Time to);
  const std::vector<TimedPart>& timed_parts() const { return timed_parts_.all(); }
  // Returns the time of these parts, of the whole run if there is none.
  Time timed() const { return timed_parts().empty() ? now() : sum_durations(timed_parts()); }
  // The algorithms that collectives have used so far, in the order of their first calls.
  const std::vector<AlgorithmUse>& algorithms_used() const { return algorithms_used_; }
  void note_algorithm(const AlgorithmUse& call);
  // The numbers of the rules (Communicator::RunsBy) that have decided for a collective so far.
  const std::set<int>& rules_used() const { return rules_used_; }
  void note_rule(int number) { rules_used_.insert(number); }
  const std::vector<KernelResult>& results() const { return results_; }
  const std::vector<KernelResult>& last_results() const { return last_results_; }

  Attachments& attachments() { return attachments_; }
  const Attachments& attachments() const { return attachments_; }

  // A rank that a fault has ended does not return from here, unless it is in a collective, which it
  // has called before.
  void stop_if_dead();

  // Keeps an object alive until the work that it belongs to is over or abandoned.
  void keep(std::shared_ptr<void> work);
  void release(const void* work);

  // Ends a run that has failed: unwinds every fiber and drops all operations under way.
  void abandon();
  // The number of runs that have ended so.
  std::uint64_t abandoned_runs() const { return abandoned_runs_; }

 private:
  friend class Completion;

  std::string name_of_caller() const;
  void check_thread() const;
  // Keeps a program that reads no values from keeping all that they are computed from.
  void bound_memory() {
    if (executor_.is_memory_to_be_bounded()) [[unlikely]]
      fibers_.call_on_main([this] { executor_.bound_memory(); });
  }
  void drive(Completion& completion);
  void run_events();
  void wait_on_fiber(Fiber& fiber, Completion& completion, DescribeWait describe);
  std::optional<RunLog::Id> log_wait(const Completion& completion, DescribeWait describe);
  [[noreturn]] void throw_failure();

  const Log log_;
  const std::shared_ptr<ScheduleChoices> choices_;  // the machine asks it
  FlightRecorder flight_recorder_;
  sim::Machine machine_;
  ActivityMeter activity_;
  std::unique_ptr<RunLog> run_log_;
  TimedParts timed_parts_;
  FiberScheduler fibers_;
  const ProcessGuard process_guard_{fibers_, flight_recorder_};
  sim::DataExecutor executor_;
  CommandBudget command_budget_;
  FiberLocal main_local_;
  Pollers pollers_{*this};
  Attachments attachments_;
  Beat beat_;                               // empty: nobody wants to know
  const Completion* driven_for_ = nullptr;  // what the main stack waits for
  std::atomic<bool> stop_ = false;
  std::atomic<pthread_t> driver_{};  // the thread that drives the engine; 0: none does
  std::atomic<ExitCode> interrupted_ = ExitCode::ok;  // the reason; ok: it is not interrupted
  bool queues_launches_ = false;
  std::uint64_t abandoned_runs_ = 0;
  std::exception_ptr failure_;
  std::uint64_t last_write_ = 0;
  std::uint64_t last_operation_ = 0;  // the highest number given out
  std::uint64_t last_begun_ = 0;      // the highest number that began
  std::vector<AlgorithmUse> algorithms_used_;
  std::set<int> rules_used_;
  std::vector<KernelResult> results_;
  std::vector<KernelResult> last_results_;
  // Each of many ranks has some.  It ends in the order of keep() if the run is abandoned.
  struct Kept {
    std::uint64_t number = 0;
    std::shared_ptr<void> work;
  };
  std::unordered_map<const void*, Kept> work_under_way_;
  std::uint64_t last_kept_ = 0;
  Watchdog watchdog_;  // last: the process's watch looks at fibers_
};

}  // namespace kernbench::runtime
