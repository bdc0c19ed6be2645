// Reports calls that would end the process while ranks or kernels run, and errors that leave
// main().
//
// These effects are process-wide.  While a ProcessGuard exists,
//   exit(), quick_exit() and pthread_exit() in a worker or a kernel end the process with KB-R006
//     and exit code 21; the text names the code that was given;
//   abort() in one, also by assert() or std::terminate(), is reported as KB-R006, and continues.
// The caller is found by the stack on which the call runs, so an exit() of main() or of another
// thread keeps its meaning.  _exit() and a longjmp() out of a worker cannot be seen.
//
// Each of these reports writes the flight record of its context.

#pragma once

#include "runtime/fiber/fiber_scheduler.h"
#include "runtime/guards/flight_recorder.h"
#include "runtime/guards/uncaught_errors.h"

namespace kernbench::runtime {

class ProcessGuard {
 public:
  // REQUIRES: both arguments outlive this, and the fibers' local() is a FiberLocal
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
  ProcessGuard* next_ = nullptr;  // list of all guards of the process
};

// Reports KB-L002 and ends the process with exit code 71, without allocating memory.
[[noreturn]] void end_out_of_memory() noexcept;

}  // namespace kernbench::runtime
