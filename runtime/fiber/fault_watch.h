// Reports which rank or kernel a fault is in, instead of a bare "Segmentation fault".
//
// The handlers are process-wide, as signals are.  While a FaultWatch exists, SIGSEGV, SIGBUS,
// SIGFPE and SIGILL have a handler on an alternate stack of the thread that made it (kept to the
// end of the process).  A fault on a guard page of a watched pool ends the process with KB-R005
// and exit code 71, and so does an overflow of that thread's own stack.  Any other fault of code on
// a fiber is reported (KB-R014, once); then, like a fault outside of fibers, it goes to the
// previous handler, or ends the process by its signal. AddressSanitizer builds leave this to the
// sanitizer.

#pragma once

#include <atomic>

namespace kernbench::runtime {

class Fiber;
class StackPool;

class FaultWatch {
 public:
  // `current` is the fiber that runs on one of the pool's stacks at present.
  // REQUIRES: pool and current outlive this
  FaultWatch(const StackPool& pool, const std::atomic<Fiber*>& current);
  ~FaultWatch();
  FaultWatch(const FaultWatch&) = delete;
  FaultWatch& operator=(const FaultWatch&) = delete;

  const StackPool& pool() const { return pool_; }
  const Fiber* current() const { return current_.load(std::memory_order_relaxed); }
  const FaultWatch* next() const { return next_; }

 private:
  const StackPool& pool_;
  const std::atomic<Fiber*>& current_;
  FaultWatch* next_ = nullptr;  // list of all watches of the process
};

}  // namespace kernbench::runtime
