// A memory budget shared by threads: a thread that needs more than is left waits for others to
// return theirs.

#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "sim_engine/base/units.h"

namespace kernbench::benches::operators {

class MemoryBudget {
 public:
  explicit MemoryBudget(Bytes bytes) : left_(bytes) {}

  // Holds `bytes` as long as it lives.  While it waits it calls check(), which may throw.
  // REQUIRES: `bytes` is at most the whole budget
  class Share {
   public:
    template <class Check>
    Share(MemoryBudget& budget, Bytes bytes, const Check& check) : budget_(budget), bytes_(bytes) {
      constexpr std::chrono::milliseconds kPause{100};
      std::unique_lock lock(budget_.mutex_);
      const auto is_left = [&] { return budget_.left_ >= bytes_; };
      while (!budget_.given_back_.wait_for(lock, kPause, is_left)) check();
      budget_.left_ -= bytes_;
    }
    ~Share() {
      const std::scoped_lock lock(budget_.mutex_);
      budget_.left_ += bytes_;
      budget_.given_back_.notify_all();
    }
    Share(const Share&) = delete;
    Share& operator=(const Share&) = delete;

   private:
    MemoryBudget& budget_;
    const Bytes bytes_;
  };

 private:
  std::mutex mutex_;
  std::condition_variable given_back_;
  Bytes left_;
};

}  // namespace kernbench::benches::operators
