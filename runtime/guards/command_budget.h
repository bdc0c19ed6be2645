// Limits the number of commands of kernels: beyond it they count as endless.

#pragma once

#include <cstdint>

namespace kernbench::runtime {

// Every kernel has kOwnCommands for itself, and all that run at the same time share `limit` more.
// This lets one kernel be long and many be of moderate length, and finds many endless kernels
// after about as many commands as one.
class CommandBudget {
 public:
  static constexpr std::int64_t kOwnCommands = 50'000;

  // A limit of 0 means no limit.
  explicit CommandBudget(std::int64_t limit) : limit_(limit), left_(limit) {}

  std::int64_t limit() const { return limit_; }

  // Called when a launch begins, since that is progress.
  void refill() { left_ = limit_; }

  // Takes commands from the shared budget, for a kernel that has used up its own.  Returns false
  // if fewer are left.
  bool take(std::int64_t count) {
    if (limit_ == 0) return true;
    if (count > left_) return false;
    left_ -= count;
    return true;
  }

 private:
  const std::int64_t limit_;
  std::int64_t left_;
};

}  // namespace kernbench::runtime
