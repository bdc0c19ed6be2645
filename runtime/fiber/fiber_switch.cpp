// The members of FiberScheduler that switch stacks.  No other code in kernbench does.
//
// Their cost is mispredicted returns, about 10 ns each: the processor predicts a return from the
// calls it has seen, which after a switch are those of another stack.  park() and on_resume()
// therefore reach the jump without a frame in between, and return by KERNBENCH_RETURNS_BY_JUMP.

#include <cxxabi.h>
#include <fmt/format.h>

#include <boost/context/fiber.hpp>
#include <boost/version.hpp>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <utility>

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

#include "runtime/fiber/fiber_scheduler.h"
#include "sim_engine/base/check.h"
#include "sim_engine/base/error.h"
#include "sim_engine/base/unfinished_files.h"

namespace kernbench::runtime {

namespace context = boost::context;

// Makes a function end in a jump to its return address, which is predicted from earlier targets of
// such jumps: a round trip then costs 17 ns instead of 37 (raw Boost.Context: 10).  It is off
// where the processor guards return addresses (a shadow stack, which Boost.Context could not
// switch anyhow).
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__CET__)
#define KERNBENCH_RETURNS_BY_JUMP [[gnu::function_return("thunk-extern")]]
asm(R"(
.text
.type __x86_return_thunk, @function
__x86_return_thunk:
  .cfi_startproc
  popq %rcx
  .cfi_adjust_cfa_offset -8
  .cfi_register %rip, %rcx
  jmp *%rcx
  .cfi_endproc
.size __x86_return_thunk, . - __x86_return_thunk
)");
#else
#define KERNBENCH_RETURNS_BY_JUMP
#endif

struct Fiber::MainCall {
  FunctionRef<void()> function;
  std::exception_ptr exception;
};

namespace {

// Boost saves the exception globals itself from 1.88 on.  Saving them twice would undo it.
constexpr bool kSwapExceptionGlobals = BOOST_VERSION < 108800;
constexpr int kCancelledThrows = 3;

// Fiber::other_side_ holds the continuation of the side that is not running: the fiber's while it
// is parked, the main stack's while the fiber runs.
static_assert(sizeof(context::fiber) == sizeof(void*) && alignof(context::fiber) == alignof(void*));

context::fiber& continuation(void*& storage) {
  return *std::launder(reinterpret_cast<context::fiber*>(&storage));
}

[[gnu::always_inline]] inline void switch_sides(void*& other_side) {
  context::fiber& other = continuation(other_side);
  other = std::move(other).resume();
}

// Raises the sticky flags of this thread's floating-point status, which a new fiber inherits.  A
// switch restores them, and restoring a value other than the present one costs 35 ns or more; once
// all are raised, no calculation changes them.
void raise_sticky_flags() {
#if defined(__SSE__)
  _mm_setcsr(_mm_getcsr() | _MM_EXCEPT_MASK);
#endif
}

// FiberScheduler::finish() returns the stack to the pool, so this does nothing.
struct BorrowedStack {
  void deallocate(context::stack_context&) noexcept {}
};

[[noreturn]] void die_blocking_while_unwinding(const Fiber& fiber) {
  std::fflush(stdout);
  fmt::print(stderr,
             "kernbench: error: [KB-R008] blocking call during stack unwinding: {} waits for {} in "
             "a destructor, while an exception propagates\n"
             "  wait before the scope ends, or catch the exception first\n",
             fiber.name(), fiber.waits_for());
  end_process(static_cast<int>(ExitCode::collective_misuse));
}

}  // namespace

// Runs the fiber until it leaves.  It is called on the main stack.  The globals are swapped on this
// side of the switch, because on the fiber's side they are wrong for exceptions of the switch
// itself.
[[gnu::always_inline]] inline void FiberScheduler::enter(Fiber& fiber) {
  FiberScheduler& scheduler = *fiber.scheduler_;
  scheduler.current_.store(&fiber, std::memory_order_relaxed);
  fiber.state_ = Fiber::State::running;
  fiber.annotation_.entering();
  if constexpr (kSwapExceptionGlobals) {
    auto* globals = reinterpret_cast<Fiber::ExceptionGlobals*>(abi::__cxa_get_globals());
    std::swap(*globals, fiber.exception_globals_);
    switch_sides(fiber.other_side_);
    std::swap(*globals, fiber.exception_globals_);
  } else {
    switch_sides(fiber.other_side_);
  }
  fiber.annotation_.left();
  scheduler.current_.store(nullptr, std::memory_order_relaxed);
}

// On the fiber: returns to enter(), until the fiber is entered again.
[[gnu::always_inline]] inline void FiberScheduler::leave(Fiber& fiber) {
  if constexpr (!kSwapExceptionGlobals) {
    fiber.exception_globals_.uncaught = static_cast<unsigned int>(std::uncaught_exceptions());
  }
  fiber.annotation_.leaving();
  switch_sides(fiber.other_side_);
  fiber.annotation_.entered();
}

void FiberScheduler::on_start(void* object, std::uint64_t generation) {
  Fiber& fiber = *static_cast<Fiber*>(object);
  if (fiber.generation_ != generation) return;  // cancelled meanwhile
  fiber.scheduler_->prepare(fiber);
  fiber.scheduler_->resume(fiber);
}

KERNBENCH_RETURNS_BY_JUMP void FiberScheduler::on_resume(void* object, std::uint64_t generation) {
  Fiber& fiber = *static_cast<Fiber*>(object);
  if (fiber.generation_ != generation) return;  // cancelled meanwhile
  fiber.scheduler_->resume(fiber);
}

[[gnu::always_inline]] inline void FiberScheduler::resume(Fiber& fiber) {
  KB_CHECK(current() == nullptr, "a fiber is resumed from inside another");
  // An atomic increment is not needed, since only this thread writes it.
  turn_.store(turn_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
#if defined(KERNBENCH_TSAN)
  __tsan_release(&turn_);  // this file is not instrumented, so TSan does not see it
#endif
  enter(fiber);
  const bool is_parked = fiber.state_ == Fiber::State::waiting;
  if (is_parked && fiber.exception_globals_.uncaught == 0) [[likely]]
    return;
  settle(fiber);
}

// Handles the requests of a fiber that has left other than to park: call_on_main(), its end, and
// giving up.
[[gnu::noinline]] void FiberScheduler::settle(Fiber& fiber) {
  while (Fiber::MainCall* call = fiber.main_call_) {
    try {
      call->function();
    } catch (...) {
      call->exception = std::current_exception();
    }
    fiber.main_call_ = nullptr;
    enter(fiber);
  }
  if (fiber.state_ == Fiber::State::finished) return finish(fiber);
  if (fiber.state_ == Fiber::State::abandoned) return abandon(fiber);
  if (fiber.exception_globals_.uncaught != 0) die_blocking_while_unwinding(fiber);
}

void FiberScheduler::prepare(Fiber& fiber) {
  fiber.stack_ = stacks_.acquire();
  raise_sticky_flags();
  fiber.annotation_.set_bounds(fiber.stack_.bottom, fiber.stack_.size);
  context::stack_context stack;
  stack.sp = fiber.stack_.top();
  stack.size = fiber.stack_.size;
  const auto entry = [&fiber](context::fiber&& main) {
    fiber.annotation_.entered();
    continuation(fiber.other_side_) = std::move(main);
    run_body(fiber);
    fiber.annotation_.leaving_for_good();
    return std::move(continuation(fiber.other_side_));
  };
  new (&fiber.other_side_)
      context::fiber(std::allocator_arg, context::preallocated(stack.sp, stack.size, stack),
                     BorrowedStack(), entry);
}

KERNBENCH_RETURNS_BY_JUMP void FiberScheduler::park(DescribeWait describe) {
  Fiber* fiber = current();
  KB_CHECK(fiber != nullptr, "park() outside a fiber");
  if (fiber->cancelled_) [[unlikely]]
    throw_cancelled(*fiber);
  fiber->describe_ = describe;
  fiber->waits_since_ = engine_.now();
  fiber->state_ = Fiber::State::waiting;
  if (fiber->wake_pending_) [[unlikely]]
    wake(*fiber);
  leave(*fiber);
  if (fiber->cancelled_) [[unlikely]]
    throw_cancelled(*fiber);
}

// Gives up a fiber that swallows Cancelled repeatedly, or would throw it out of a destructor.
void FiberScheduler::throw_cancelled(Fiber& fiber) {
  if (fiber.cancelled_throws_ >= kCancelledThrows || std::uncaught_exceptions() > 0) give_up(fiber);
  ++fiber.cancelled_throws_;
  throw Cancelled{};
}

void FiberScheduler::abandon_current() {
  KB_CHECK(current() != nullptr && current()->cancelled_, "no cancelled fiber runs");
  give_up(*current());
}

void FiberScheduler::give_up(Fiber& fiber) {
  fiber.state_ = Fiber::State::abandoned;
  leave(fiber);
  std::abort();  // nobody enters it again
}

void FiberScheduler::call_on_main(FunctionRef<void()> function) {
  if (current() == nullptr) return function();
  Fiber& fiber = *current();
  Fiber::MainCall call{function, nullptr};
  fiber.main_call_ = &call;
  leave(fiber);
  if (call.exception) std::rethrow_exception(std::move(call.exception));
}

}  // namespace kernbench::runtime
