// A fiber as its users see it: its name, what it waits for, and how it ended.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "runtime/fiber/function_ref.h"
#include "runtime/fiber/sanitizer.h"
#include "runtime/fiber/stack_pool.h"
#include "sim_engine/base/error.h"
#include "sim_engine/base/units.h"

namespace kernbench::runtime {

class Fiber;
class FiberScheduler;

// Describes what a parked fiber waits for.  It is called for reports only, on the main stack.
using DescribeWait = FunctionRef<std::string()>;

// Writes a fiber's name into the buffer and returns its length.  It must not allocate or throw:
// the report of a stack overflow calls it too.
using NameWriter = std::size_t (*)(const void* local, std::span<char> buffer) noexcept;

// A fiber's name: a text, which is copied, or a function that makes one from Fiber::local() on
// demand.
class FiberName {
 public:
  FiberName(std::string_view text) : text_(text) {}  // implicit: spawn("rank 0", ...)
  FiberName(const char* text) : text_(text) {}
  FiberName(const std::string& text) : text_(text) {}
  FiberName(NameWriter writer) : writer_(writer) {}

 private:
  friend class FiberScheduler;
  std::string_view text_;
  NameWriter writer_ = nullptr;
};

// The way in which a fiber ended.
struct FiberResult {
  enum class How {
    returned,
    threw,      // `exception` left the body
    cancelled,  // Cancelled left the body, or the body was never started
    abandoned,  // it blocked again after cancellation; its stack is never unwound
  };

  How how = How::returned;
  std::exception_ptr exception;
};

using FiberEnd = std::function<void(Fiber&, FiberResult)>;

// A fiber is made by FiberScheduler::spawn() and valid until its FiberEnd has returned; then the
// object is used for another fiber.
class Fiber {
 public:
  enum class State : std::uint8_t {
    starting,  // spawned, not yet run
    running,   // on its stack, or in call_on_main()
    waiting,   // parked
    ready,     // woken, to be resumed by the engine at this simulated time
    finished,
    abandoned,
  };

  Fiber() = default;
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  std::string name() const;
  // Writes name(), cut to the buffer's size.  Async-signal-safe.
  std::size_t write_name(std::span<char> buffer) const noexcept;

  // The pointer that its owner gave to spawn(): the state of the rank or kernel that it runs.
  void* local() const { return local_; }
  State state() const { return state_; }

  // The description given to park(); empty if the fiber is not parked.
  std::string waits_for() const;
  // True if a frame with that address is the fiber's own.  Async-signal-safe.
  bool has_on_stack(const void* frame) const noexcept {
    return frame >= stack_.bottom && frame < stack_.top();
  }
  // The number of waits in which Cancelled was thrown; 0 unless its run is over.
  int ignored_cancellations() const { return cancelled_throws_; }
  // The time at which it parked last.
  Time waits_since() const { return waits_since_; }

 private:
  friend class FiberScheduler;
  struct MainCall;

  // The per-thread state of libstdc++ that Boost.Context before 1.88 does not switch: the
  // exceptions being handled, and the number in flight.  Its layout is that of __cxa_eh_globals,
  // with the padding, so that it is moved by whole words.
  struct ExceptionGlobals {
    void* caught = nullptr;
    unsigned int uncaught = 0;
    unsigned int padding = 0;
  };

  // Only the simulating thread writes it; any thread may read it.
  class SharedState {
   public:
    operator State() const { return value_.load(std::memory_order_relaxed); }
    SharedState& operator=(State state) {
      value_.store(state, std::memory_order_relaxed);
      return *this;
    }

   private:
    std::atomic<State> value_ = State::finished;
  };

  // Hot: the fields that a switch touches, in one cache line.
  alignas(64) void* other_side_ = nullptr;  // a boost::context::fiber, see fiber_switch.cpp
  FiberScheduler* scheduler_ = nullptr;
  ExceptionGlobals exception_globals_;
  DescribeWait describe_;
  Time waits_since_{0};
  std::uint32_t generation_ = 0;  // counts the fibers that have used this object
  SharedState state_;
  bool wake_pending_ = false;  // woken while it ran: the next park() does not wait
  bool cancelled_ = false;
  std::uint8_t cancelled_throws_ = 0;

  // Cold: all other fields.
  [[no_unique_address]] StackAnnotation annotation_;
  MainCall* main_call_ = nullptr;  // not null while it is in call_on_main()
  Stack stack_;
  std::string name_;
  NameWriter name_writer_ = nullptr;
  void* local_ = nullptr;
  std::function<void()> body_;
  FiberEnd on_end_;
  FiberResult result_;
  Fiber* previous_ = nullptr;  // live fibers, in order of creation
  Fiber* next_ = nullptr;
};

}  // namespace kernbench::runtime
