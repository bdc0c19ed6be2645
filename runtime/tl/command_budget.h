// How many commands kernels may issue before they are held to be endless.

#pragma once

#include <cstdint>

namespace kernbench::tl {

// Every kernel has kOwnCommands for itself; all that run at the same time share `limit` more.  So
// one kernel may be long, many may be of moderate length, and many without an end are found after
// about as many commands as one.
class CommandBudget {
 public:
  static constexpr std::int64_t kOwnCommands = 50'000;

  // 0: no limit.
  explicit CommandBudget(std::int64_t limit) : limit_(limit), left_(limit) {}

  std::int64_t limit() const { return limit_; }

  // A launch begins: something makes progress.
  void refill() { left_ = limit_; }

  // For commands of a kernel that has issued its own.  False if so many are not left.
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

}  // namespace kernbench::tl
