// The end of an operation that a device runs for a rank: the device passes it, and the host learns
// of it a little later.

#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <utility>

#include "runtime/simulation/simulation.h"

namespace kernbench::runtime {

class Marker {
 public:
  bool is_passed() const { return is_passed_; }
  bool is_known() const { return is_known_; }  // to the host
  Time at() const { return at_; }              // REQUIRES: is_passed()
  // Returns what the operation failed with; nullptr if it did not fail, or is not done.
  const std::exception_ptr& failure() const { return failure_; }
  // Returns it to somebody who acts on it: what follows the operation goes on.
  std::exception_ptr take_failure() { return std::exchange(failure_, nullptr); }

  // `call` is called when the host learns of the end, before those that wait for it go on, and is
  // destroyed then.
  void when_known(std::function<void()> call) { when_known_ = std::move(call); }

  // The device passes it now, and the host learns of it after `notice`.
  static void pass(const std::shared_ptr<Marker>& marker, Simulation& simulation, Time notice,
                   std::exception_ptr failure = nullptr);

  // Block the caller until the device has passed it, or until the host knows of it.
  void wait(Simulation& simulation, DescribeWait describe);
  void wait_until_known(Simulation& simulation, DescribeWait describe);

 private:
  void become_known();

  Simulation* simulation_ = nullptr;  // set when it is passed
  bool is_passed_ = false;
  bool is_known_ = false;
  Time at_{0};
  std::exception_ptr failure_;
  std::function<void()> when_known_;
  Event passed_;
  Event known_;
};

}  // namespace kernbench::runtime
