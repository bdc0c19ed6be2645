// Work in steps that depend on each other, done by several threads.

#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <queue>
#include <vector>

namespace kernbench::sim {

// A step begins when all that it needs have ended, is done in parts by whichever threads are free,
// and ends with its last part.
class StepWork {
 public:
  using Step = std::uint32_t;

  virtual ~StepWork() = default;

  // One at a time, whatever the step: what these two share needs no lock of its own.
  virtual void begin(Step step) = 0;
  virtual void end(Step step) = 0;

  // Any number at the same time.  Threads are numbered from 0.
  virtual void run(Step step, std::int64_t part, int thread) = 0;
};

// Of the steps that are ready the earliest added come first, so that no thread runs far ahead and
// what steps hold stays about as small as in order.
class StepGraph {
 public:
  using Step = StepWork::Step;

  // Steps are numbered from 0.  `part_cost`, in about a nanosecond, is for deciding how much a
  // thread takes at a time.  REQUIRES: part_count >= 1
  Step add(std::int64_t part_count, std::int64_t part_cost);
  // REQUIRES: both were added; no step needs itself, by whatever way
  void add_need(Step step, Step needed);

  // Does all steps on the calling thread and `thread_count` - 1 more.  If one throws, the steps
  // that do not need it are done still, and then the first exception is thrown.  Once only.
  void run(int thread_count, StepWork& work);

 private:
  struct State {
    std::int64_t part_count;
    std::int64_t part_cost;
    std::int64_t next_part = 0;
    std::int64_t parts_left;
    std::uint32_t missing = 0;         // steps that it needs and that have not ended
    std::uint32_t first_user = kNone;  // in users_
  };
  struct User {
    Step step;
    std::uint32_t next;
  };
  struct Share {
    Step step;
    std::int64_t part;
  };

  static constexpr std::uint32_t kNone = 0xffffffff;
  static constexpr std::int64_t kShareCost = 20'000;

  void work_as(int thread);
  void take(std::vector<Share>& shares);
  void run_share(const Share& share, int thread);
  void share_done(const Share& share);
  void end_step(Step step);
  void note_failure();

  std::vector<State> steps_;
  std::vector<User> users_;
  StepWork* work_ = nullptr;

  std::mutex mutex_;  // for all that follows, and for steps_ while running
  std::condition_variable changed_;
  std::priority_queue<Step, std::vector<Step>, std::greater<>> ready_;
  int busy_threads_ = 0;
  std::size_t ended_count_ = 0;
  std::exception_ptr failure_;
};

}  // namespace kernbench::sim
