#include "runtime/fiber/fiber_scheduler.h"

#include <cxxabi.h>
#include <fmt/format.h>

#include <cstdio>
#include <utility>

#include "sim_engine/base/check.h"
#include "sim_engine/base/error.h"
#include "sim_engine/base/unfinished_files.h"

namespace kernbench::runtime {

namespace {

// pthread_exit() has unwound the fiber and would end the thread, which runs all others too.
[[noreturn]] void die_of_pthread_exit(const Fiber& fiber) {
  std::fflush(stdout);
  fmt::print(stderr,
             "kernbench: error: [KB-R006] {} called pthread_exit()\n"
             "  a worker ends by returning or by throwing\n",
             fiber.name());
  end_process(static_cast<int>(ExitCode::collective_misuse));
}

}  // namespace

FiberScheduler::FiberScheduler(sim::Engine& engine, const FiberOptions& options)
    : engine_(engine), stacks_(options) {}

FiberScheduler::~FiberScheduler() {
  KB_CHECK(current() == nullptr, "a scheduler is destroyed by one of its fibers");
  unwind_all();
  KB_CHECK(live_count_ == 0, "a scheduler is destroyed inside call_on_main()");
}

Fiber& FiberScheduler::spawn(FiberName name, std::function<void()> body, void* local,
                             FiberEnd on_end) {
  Fiber& fiber = take_fiber();
  fiber.scheduler_ = this;
  fiber.state_ = Fiber::State::starting;
  fiber.name_ = name.text_;
  fiber.name_writer_ = name.writer_;
  fiber.local_ = local;
  fiber.body_ = std::move(body);
  fiber.on_end_ = std::move(on_end);
  fiber.waits_since_ = engine_.now();
  link(fiber);
  // A fiber begins in an event of its own, so that its parent finishes its step first, whatever it
  // does.
  engine_.schedule(Time{0}, &FiberScheduler::on_start, &fiber, fiber.generation_);
  return fiber;
}

Fiber& FiberScheduler::take_fiber() {
  if (free_.empty()) {
    auto fiber = std::make_unique<Fiber>();
    // Ending a fiber must not need memory: it happens where nothing may be thrown.
    if (free_.capacity() <= fibers_.size()) free_.reserve(2 * fibers_.size() + 1);
    fibers_.push_back(std::move(fiber));
    return *fibers_.back();
  }
  Fiber& fiber = *free_.back();
  free_.pop_back();
  return fiber;
}

void FiberScheduler::link(Fiber& fiber) {
  fiber.previous_ = youngest_;
  fiber.next_ = nullptr;
  (youngest_ == nullptr ? oldest_ : youngest_->next_) = &fiber;
  youngest_ = &fiber;
  ++live_count_;
}

void FiberScheduler::unlink(Fiber& fiber) {
  (fiber.previous_ == nullptr ? oldest_ : fiber.previous_->next_) = fiber.next_;
  (fiber.next_ == nullptr ? youngest_ : fiber.next_->previous_) = fiber.previous_;
  --live_count_;
}

namespace {

// The error for a body that throws Cancelled although its fiber was not cancelled.
std::exception_ptr thrown_by_the_user() {
  return std::make_exception_ptr(CollectiveError(
      "KB-R015",
      "kernbench::Cancelled was thrown, which is how the runtime unwinds a run that is over; throw "
      "an exception of your own"));
}

}  // namespace

// Runs on the fiber's stack.  No exception may leave it: there is no frame below to catch one.
// (A forced unwind has no object behind the reference that catches it.)
__attribute__((no_sanitize("null"))) void FiberScheduler::run_body(Fiber& fiber) noexcept {
  fiber.result_ = {};
  try {
    fiber.body_();
  } catch (const Cancelled&) {
    if (fiber.cancelled_) {
      fiber.result_.how = FiberResult::How::cancelled;
    } else {
      fiber.result_ = {FiberResult::How::threw, thrown_by_the_user()};
    }
  } catch (const abi::__forced_unwind&) {
    die_of_pthread_exit(fiber);
  } catch (...) {
    fiber.result_ = {FiberResult::How::threw, std::current_exception()};
  }
  fiber.body_ = nullptr;  // here, since the destructors of what it captured may block
  fiber.state_ = Fiber::State::finished;
}

void FiberScheduler::wake(Fiber& fiber) {
  KB_CHECK(fiber.state_ != Fiber::State::finished, "wake of a finished fiber");
  switch (fiber.state_) {
    case Fiber::State::waiting:
      fiber.wake_pending_ = false;
      return schedule_resume(fiber);
    case Fiber::State::starting:
    case Fiber::State::running:
      // A fiber that is not parked yet would miss the wake-up, so it is remembered for its next
      // park().
      fiber.wake_pending_ = true;
      return;
    default:
      return;
  }
}

void FiberScheduler::schedule_resume(Fiber& fiber) {
  fiber.state_ = Fiber::State::ready;
  engine_.schedule(Time{0}, resume_event(fiber));
}

void FiberScheduler::cancel(Fiber& fiber) {
  // A fiber cannot be unwound below its own frames.  It throws at its next park().
  if (&fiber == current()) {
    fiber.cancelled_ = true;
    return;
  }
  call_on_main([&] { unwind(fiber); });
}

void FiberScheduler::cancel_all() {
  call_on_main([this] { unwind_all(); });
}

void FiberScheduler::unwind_all() {
  for (Fiber* fiber = youngest_; fiber != nullptr;) {
    if (fiber->main_call_ != nullptr) {  // its frames lie below ours
      fiber->cancelled_ = true;
      fiber = fiber->previous_;
    } else {
      unwind(*fiber);
      fiber = youngest_;  // unwinding may have ended or begun any number of others
    }
  }
}

// Runs on the main stack.  A pending start or resumption sees a new generation and does nothing.
void FiberScheduler::unwind(Fiber& fiber) {
  switch (fiber.state_) {
    case Fiber::State::starting:
      fiber.result_ = {FiberResult::How::cancelled, nullptr};
      fiber.body_ = nullptr;
      return finish(fiber);
    case Fiber::State::waiting:
    case Fiber::State::ready:
      fiber.cancelled_ = true;
      return on_resume(&fiber, fiber.generation_);
    case Fiber::State::running:  // in call_on_main()
      fiber.cancelled_ = true;
      return;
    default:
      return;
  }
}

void FiberScheduler::finish(Fiber& fiber) {
  unlink(fiber);
  ++fiber.generation_;
  fiber.state_ = Fiber::State::finished;
  fiber.cancelled_ = false;
  fiber.cancelled_throws_ = 0;
  fiber.wake_pending_ = false;
  if (fiber.stack_.bottom != nullptr) stacks_.release(std::exchange(fiber.stack_, {}));
  const FiberEnd on_end = std::move(fiber.on_end_);
  if (on_end) on_end(fiber, std::move(fiber.result_));
  free_.push_back(&fiber);  // last: on_end may spawn, and still looks at this one
}

void FiberScheduler::abandon(Fiber& fiber) {
  unlink(fiber);
  ++fiber.generation_;
  stacks_.leak(std::exchange(fiber.stack_, {}));
  abandoned_.push_back(&fiber);
  const FiberEnd on_end = std::move(fiber.on_end_);
  if (on_end) on_end(fiber, {FiberResult::How::abandoned, nullptr});
}

std::vector<Fiber*> FiberScheduler::live() const {
  std::vector<Fiber*> fibers;
  fibers.reserve(live_count_);
  for (Fiber* fiber = oldest_; fiber != nullptr; fiber = fiber->next_) fibers.push_back(fiber);
  return fibers;
}

bool FiberScheduler::is_current_cancelled() const {
  return current() != nullptr && current()->cancelled_;
}

}  // namespace kernbench::runtime
