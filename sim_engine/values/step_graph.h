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

// A step begins when all steps that it needs have ended.  Free threads do its parts, and it ends
// with the last part.
class StepWork {
 public:
  using Step = std::uint32_t;

  virtual ~StepWork() = default;

  // Calls of begin() and end() never overlap, whatever the step: what they share needs no lock.
  virtual void begin(Step step) = 0;
  virtual void end(Step step) = 0;

  // Several calls may run at the same time.  Threads are numbered from 0.
  virtual void run(Step step, std::int64_t part, int thread) = 0;
};

// Among the ready steps, the earliest added are done first, so that no thread runs far ahead and
// the steps hold about as much memory as in sequential order.
class StepGraph {
 public:
  using Step = StepWork::Step;

  // Adds a step; steps are numbered from 0.  `part_cost`, in nanoseconds (roughly), decides how
  // many parts a thread takes at a time.  REQUIRES: part_count >= 1
  Step add(std::int64_t part_count, std::int64_t part_cost);
  // REQUIRES: both were added; no step needs itself, directly or indirectly
  void add_need(Step step, Step needed);

  // Does all steps on the calling thread and up to `thread_count` - 1 more.  If a step throws, the
  // steps that do not need it are still done, and then the first exception is thrown.  Call it
  // once.
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

  std::mutex mutex_;  // guards all members below, and steps_ while running
  std::condition_variable changed_;
  std::priority_queue<Step, std::vector<Step>, std::greater<>> ready_;
  int busy_threads_ = 0;
  std::size_t ended_count_ = 0;
  std::exception_ptr failure_;
};

}  // namespace kernbench::sim
