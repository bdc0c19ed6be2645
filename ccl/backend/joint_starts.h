// Lets the members of collectives go on when all have called.

#pragma once

#include <cstdint>
#include <exception>
#include <map>
#include <vector>

#include "runtime/simulation/simulation.h"

namespace kernbench::ccl {

// Members go on after all that ranks do at the moment at which the last one has called, each with
// its collectives in the order of its calls.  So it does not matter which member was the last, and
// ranks that do the same at the same time begin to do it in the same order.
class JointStarts {
 public:
  explicit JointStarts(runtime::Simulation& simulation) : simulation_(simulation) {}

  // Blocks a member of the operation until all have called, of whom it is the last one or not.
  // Throws what Simulation::wait() does, and what give_up() says.
  void wait(std::uint64_t operation, bool is_last, runtime::DescribeWait describe);

  // Not all will call: those of the operation that wait get an exception.
  void give_up(std::uint64_t operation, const std::exception_ptr& why);

 private:
  struct Waiter {
    std::uint64_t number = 0;  // in the order of the calls
    runtime::Completion* goes_on = nullptr;
    std::exception_ptr* failure = nullptr;
  };

  void begin();
  void forget(std::uint64_t operation, const runtime::Completion& gone);

  runtime::Simulation& simulation_;
  std::uint64_t calls_ = 0;
  std::map<std::uint64_t, std::vector<Waiter>> waiting_;  // by operation
  std::vector<Waiter> due_;                               // at the end of this moment
};

}  // namespace kernbench::ccl
