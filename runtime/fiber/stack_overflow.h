// Tells the user that a fiber ran out of stack, instead of a bare "Segmentation fault".
//
// Process-wide, as signals are: while an OverflowWatch is made, a handler for SIGSEGV and SIGBUS is
// installed, on an alternate stack of the making thread (kept to the end of the process).  A fault
// on a guard page of a watched pool ends the process with KB-R005 and exit code 71; any other fault
// goes to the handler that was there before.  AddressSanitizer builds leave this to the sanitizer.

#pragma once

#include <atomic>

namespace kernbench::runtime {

class Fiber;
class StackPool;

class OverflowWatch {
 public:
  // `current` is the fiber that uses the pool's stacks at present.
  // REQUIRES: pool and current outlive this
  OverflowWatch(const StackPool& pool, const std::atomic<Fiber*>& current);
  ~OverflowWatch();
  OverflowWatch(const OverflowWatch&) = delete;
  OverflowWatch& operator=(const OverflowWatch&) = delete;

  const StackPool& pool() const { return pool_; }
  const Fiber* current() const { return current_.load(std::memory_order_relaxed); }
  const OverflowWatch* next() const { return next_; }

 private:
  const StackPool& pool_;
  const std::atomic<Fiber*>& current_;
  OverflowWatch* next_ = nullptr;  // all watches of the process
};

}  // namespace kernbench::runtime
