#include "runtime/simulation/simulation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <utility>
#include <vector>

#include "runtime/simulation/call_site.h"
#include "runtime/simulation/deadlock_report.h"
#include "sim_engine/base/check.h"
#include "sim_engine/base/error.h"
#include "sim_engine/components/fabric.h"
#include "sim_engine/components/machine_faults.h"
#include "sim_engine/components/work_log.h"

namespace kernbench::runtime {

void Completion::signal() {
  done_ = true;
  if (waiter_ != nullptr) simulation_.fibers_.wake(*waiter_);
  // The main stack drives the engine instead of waiting on a fiber, so the engine must stop for it.
  if (simulation_.driven_for_ == this) simulation_.stop_ = true;
}

void Event::wait(Simulation& simulation, DescribeWait describe) {
  Completion happened(simulation);
  waiting_.push_back(&happened);
  try {
    simulation.wait(happened, describe);
  } catch (...) {
    std::erase(waiting_, &happened);
    throw;
  }
}

void Event::notify_all() {
  // The list is taken before the signals, because a waiter may wait again at once.
  for (Completion* waiter : std::exchange(waiting_, {})) waiter->signal();
}

Simulation::Simulation(const Topology& topology, const sim::MachineOptions& options,
                       int evaluation_threads, const RunLimits& limits,
                       std::shared_ptr<ScheduleChoices> choices)
    : log_(std::getenv("KERNBENCH_LOG")),
      choices_(std::move(choices)),
      flight_recorder_(std::getenv("KERNBENCH_FLIGHT_RECORDER")),
      machine_(topology, options),
      activity_(machine_.engine(), topology.system.sip_count),
      fibers_(machine_.engine()),
      executor_(machine_.memory(), evaluation_threads),
      command_budget_(limits.commands),
      watchdog_(fibers_, limits) {
  if (options.profile) keep_run_log();
  if (choices_ != nullptr) {
    choices_->begins(*this);
    machine_.engine().choose_ties(*choices_, choices_->link_seed());
  }
  watchdog_.start();  // from now on the process's watch handles signals
}

Simulation::~Simulation() {
  abandon();
}

// Code on another thread is no rank, even if a rank has started the thread, and must not change
// the simulation while it runs.
void Simulation::check_thread() const {
  const pthread_t driver = driver_.load(std::memory_order_relaxed);
  if (driver == pthread_t{} || pthread_equal(driver, pthread_self()) != 0) [[likely]]
    return;
  throw CollectiveError(
      "KB-R016",
      "called on a thread of its own while {} runs; ranks and kernels are no threads, and what "
      "they start may compute, but not call torch: call it in the rank itself",
      name_of_caller());
}

FiberLocal& Simulation::local() {
  check_thread();
  Fiber* fiber = fibers_.current();
  return fiber == nullptr ? main_local_ : *static_cast<FiberLocal*>(fiber->local());
}

std::string Simulation::name_of_caller() const {
  const Fiber* fiber = fibers_.current();
  return fiber == nullptr ? "main" : fiber->name();
}

void Simulation::wait(Completion& completion, DescribeWait describe) {
  check_thread();
  bound_memory();
  const std::optional<RunLog::Id> logged = log_wait(completion, describe);
  if (Fiber* const fiber = fibers_.current()) {
    wait_on_fiber(*fiber, completion, describe);
  } else {
    drive(completion);
  }
  if (logged) run_log_->at(*logged).end = now();
}

void Simulation::wait_on_fiber(Fiber& fiber, Completion& completion, DescribeWait describe) {
  if (!completion.done_) {
    log(LogTopic::fiber, [&] { return fmt::format("waits for {}", describe()); });
  }
  completion.waiter_ = &fiber;
  try {
    // A fiber may be woken for something else that it no longer waits for, so the condition is
    // checked again.
    while (!completion.done_) fibers_.park(describe);
    stop_if_dead();
  } catch (...) {
    completion.waiter_ = nullptr;
    throw;
  }
  completion.waiter_ = nullptr;
}

void Simulation::stop_if_dead() {
  if (machine_.faults() == nullptr) [[likely]]
    return;
  const FiberLocal& caller = local();
  if (caller.kind != FiberLocal::Kind::rank || caller.collective != nullptr) return;
  const std::optional<Time> death = machine_.faults()->find_death(caller.rank);
  if (!death || now() < *death) return;
  machine_.faults()->note_deaths(now());
  while (true) {
    fibers_.park([&] { return fmt::format("nothing: it died at t={}", to_string(*death)); });
  }
}

// Logs the wait of a rank's program, or of the driver's if there are no ranks.  Works and kernels
// have spans of their own.
std::optional<RunLog::Id> Simulation::log_wait(const Completion& completion,
                                               DescribeWait describe) {
  if (run_log_ == nullptr || completion.done_) return std::nullopt;
  const FiberLocal& caller = local();
  if (caller.kind != FiberLocal::Kind::rank && caller.kind != FiberLocal::Kind::unbound) {
    return std::nullopt;
  }
  RunSpan span{.kind = RunSpan::Kind::wait,
               .rank = caller.kind == FiberLocal::Kind::rank ? caller.rank : -1,
               .device = caller.device,
               .name = describe()};
  if (const char* const file = caller.last_call.file) {
    span.where = call_site(file, caller.last_call.line);
  }
  span.part = run_log_->part_of(span.rank);
  span.issued = span.start = now();
  return run_log_->add(std::move(span));
}

void Simulation::sleep(Time time, DescribeWait describe, sim::Cause cause) {
  if (time <= Time{0}) return;
  const auto over = std::make_shared<Completion>(*this);
  keep(over);  // the event refers to it even when the caller is unwound
  machine_.engine().schedule<&Completion::signal>(time, over.get(), 0, cause);
  wait(*over, describe);
  release(over.get());
}

bool Simulation::yield() {
  if (machine_.engine().is_idle() || local().kind == FiberLocal::Kind::kernel) return false;
  pollers_.wait();
  stop_if_dead();
  return true;
}

void Simulation::run_events() {
  constexpr std::uint64_t kEventsOfBeat = 1'000'000;
  sim::Engine& engine = machine_.engine();
  while (!engine.run(stop_, kEventsOfBeat) && !engine.is_idle()) {
    if (beat_) beat_(engine.now(), engine.event_count());
  }
}

void Simulation::drive(Completion& completion) {
  // Only one stack may run events: fibers wait, and the main stack drives.
  KB_CHECK(driven_for_ == nullptr, "the engine is driven already");
  driven_for_ = &completion;
  driver_ = pthread_self();
  stop_ = completion.done_;
  try {
    if (interrupted_ == ExitCode::ok) run_events();
  } catch (...) {  // an event failed; the code that drives the engine throws it
    fail(std::current_exception());
  }
  driven_for_ = nullptr;
  driver_ = pthread_t{};
  if (const ExitCode reason = interrupted_; reason != ExitCode::ok) {
    fail(std::make_exception_ptr(Error(
        "KB-S001", reason, fmt::format("interrupted at simulated time t={}", to_string(now())))));
  }
  if (failure_ == nullptr && completion.done_) return;
  // The engine has run out of events and the completion is still open, so nothing can ever complete
  // it.
  if (failure_ == nullptr) fail(std::make_exception_ptr(deadlock_error(*this)));
  throw_failure();
}

void Simulation::throw_failure() {
  abandon();
  std::rethrow_exception(std::exchange(failure_, nullptr));
}

void Simulation::fail(std::exception_ptr failure) {
  // Later failures are mostly consequences of the first.
  if (failure_ == nullptr) failure_ = std::move(failure);
  stop_ = true;
}

void Simulation::interrupt(ExitCode reason) {
  interrupted_ = reason;
  stop_ = true;
}

template <class Number>
std::vector<Number> Simulation::read(const sim::Value& value) {
  check_thread();
  std::vector<Number> elements(static_cast<std::size_t>(value.element_count()));
  // The evaluation needs more stack than a fiber has.
  fibers_.call_on_main([&] { executor_.read(value, std::span<Number>(elements)); });
  return elements;
}

template std::vector<float> Simulation::read(const sim::Value& value);
template std::vector<std::int64_t> Simulation::read(const sim::Value& value);

void Simulation::keep_run_log() {
  if (run_log_ == nullptr) run_log_ = std::make_unique<RunLog>();
  activity_.keep_intervals();
  machine_.engine().record_causes();
  machine_.fabric().keep_use_over_time();
}

void Simulation::add_timed_part(std::string name, Time from, Time to) {
  KB_CHECK(to <= now(), "a part until {}, at {}", to, now());
  const sim::CauseLog* const causes = machine_.engine().causes();
  const sim::WorkLog* const work = machine_.work();
  timed_parts_.add({.name = std::move(name),
                    .from = from,
                    .to = to,
                    .known_at = causes == nullptr ? sim::CauseId::begin : causes->current(),
                    .work_until = work == nullptr ? sim::WorkSums{} : work->sums_until(to)});
}

void Simulation::begin(std::uint64_t operation) {
  // Each rank reports a collective; only the first report clears the results.
  if (operation <= last_begun_) return;
  last_begun_ = operation;
  last_results_.clear();
}

void Simulation::add_result(const KernelResult& result) {
  if (results_.size() == 2 * kLeastResults) {
    // Half of the results go at a time, so that an entry costs O(1).
    results_.erase(results_.begin(), results_.begin() + kLeastResults);
  }
  results_.push_back(result);
  bound_memory();
  if (result.operation == last_begun_) last_results_.push_back(result);
}

void Simulation::keep(std::shared_ptr<void> work) {
  const void* const key = work.get();
  work_under_way_.insert_or_assign(key, Kept{++last_kept_, std::move(work)});
}

void Simulation::release(const void* work) {
  const auto last = work_under_way_.extract(work);  // its end may keep other work
}

void Simulation::abandon() {
  // Objects that outlive the run compare this number, and know that nothing of theirs ends any
  // more.
  ++abandoned_runs_;
  fibers_.cancel_all();
  activity_.abandon();
  machine_.abandon_work_under_way();
  pollers_.forget_event();
  std::vector<Kept> ended;
  for (auto& [key, kept] : std::exchange(work_under_way_, {})) ended.push_back(std::move(kept));
  // Work is destroyed in the order in which it was kept: the map is ordered by addresses, which
  // differ from run to run.
  std::ranges::sort(ended, {}, &Kept::number);
  for (Kept& kept : ended) kept.work.reset();
}

void Simulation::note_algorithm(const AlgorithmUse& call) {
  const auto known = std::ranges::find_if(algorithms_used_, [&](const AlgorithmUse& use) {
    return use.collective == call.collective && use.algorithm == call.algorithm &&
           use.is_configured == call.is_configured;
  });
  if (known != algorithms_used_.end()) {
    ++known->calls;
  } else {
    algorithms_used_.push_back({call.collective, call.algorithm, call.is_configured, 1});
  }
}

}  // namespace kernbench::runtime
