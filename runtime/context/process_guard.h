// What ends the process while ranks or kernels run, and errors that leave main().
//
// Process-wide, as these are.  While a ProcessGuard is made,
//   exit(), quick_exit() and pthread_exit() in a worker or a kernel end the process with KB-R006
//     and exit code 21, whatever the code that was given: it is in the text;
//   abort() in one, assert() and std::terminate() among them, is told as KB-R006, and goes on.
// Who calls is found by the stack that the call is on, so an exit() of main() or of another thread
// keeps its meaning.  _exit() cannot be seen, nor a longjmp() out of a worker.
//
// Each writes the flight record of its context.

#pragma once

#include "runtime/context/flight_recorder.h"
#include "runtime/context/uncaught_errors.h"
#include "runtime/fiber/fiber_scheduler.h"

namespace kernbench::runtime {

class ProcessGuard {
 public:
  // REQUIRES: both outlive this, and the fibers' local() is a FiberLocal
  ProcessGuard(FiberScheduler& fibers, const FlightRecorder& recorder);
  ~ProcessGuard();
  ProcessGuard(const ProcessGuard&) = delete;
  ProcessGuard& operator=(const ProcessGuard&) = delete;

  FiberScheduler& fibers() const { return fibers_; }
  const FlightRecorder& recorder() const { return recorder_; }
  const ProcessGuard* next() const { return next_; }

 private:
  FiberScheduler& fibers_;
  const FlightRecorder& recorder_;
  ProcessGuard* next_ = nullptr;  // all guards of the process
};

// Says so with KB-L002 and ends the process with exit code 71, without any memory.
[[noreturn]] void end_out_of_memory() noexcept;

}  // namespace kernbench::runtime
