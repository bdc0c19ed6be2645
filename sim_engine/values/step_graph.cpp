#include "sim_engine/values/step_graph.h"

#include <system_error>
#include <thread>

#include "sim_engine/base/check.h"

namespace kernbench::sim {

StepGraph::Step StepGraph::add(std::int64_t part_count, std::int64_t part_cost) {
  KB_CHECK(part_count >= 1, "a step of {} parts", part_count);
  steps_.push_back({.part_count = part_count, .part_cost = part_cost, .parts_left = part_count});
  return static_cast<Step>(steps_.size() - 1);
}

void StepGraph::add_need(Step step, Step needed) {
  std::uint32_t& first = steps_[needed].first_user;
  users_.push_back({step, first});
  first = static_cast<std::uint32_t>(users_.size() - 1);
  ++steps_[step].missing;
}

void StepGraph::run(int thread_count, StepWork& work) {
  work_ = &work;
  for (Step step = 0; step < steps_.size(); ++step) {
    if (steps_[step].missing == 0) ready_.push(step);
  }
  {
    std::vector<std::jthread> others;
    try {
      for (int i = 1; i < thread_count; ++i) others.emplace_back([this, i] { work_as(i); });
    } catch (const std::system_error&) {  // the host refuses more: go on with the threads so far
    }
    work_as(0);
  }
  if (failure_ != nullptr) std::rethrow_exception(failure_);
  KB_CHECK(ended_count_ == steps_.size(), "{} of {} steps could not begin",
           steps_.size() - ended_count_, steps_.size());
}

// Takes shares under the lock and does them outside it, until no step is ready and no thread is at
// work that could make one ready.
void StepGraph::work_as(int thread) {
  std::vector<Share> shares;
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return !ready_.empty() || busy_threads_ == 0; });
    if (ready_.empty()) break;  // and no thread is at work that could make a step ready
    ++busy_threads_;
    take(shares);
    if (!ready_.empty()) changed_.notify_one();
    lock.unlock();
    for (const Share& share : shares) run_share(share, thread);
    lock.lock();
    for (const Share& share : shares) share_done(share);
    shares.clear();
    --busy_threads_;
  }
  changed_.notify_all();
}

// Takes parts worth kShareCost at once, so that threads seldom wait for the lock.
void StepGraph::take(std::vector<Share>& shares) {
  for (std::int64_t cost = 0; cost < kShareCost && !ready_.empty();) {
    const Step step = ready_.top();
    State& state = steps_[step];
    if (state.next_part == 0) {
      try {
        work_->begin(step);
      } catch (...) {
        note_failure();
        ready_.pop();
        continue;
      }
    }
    shares.push_back({step, state.next_part++});
    cost += state.part_cost;
    if (state.next_part == state.part_count) ready_.pop();
  }
}

void StepGraph::run_share(const Share& share, int thread) {
  try {
    work_->run(share.step, share.part, thread);
  } catch (...) {
    const std::lock_guard lock(mutex_);
    note_failure();
    ++steps_[share.step].parts_left;  // so that the step never ends
  }
}

void StepGraph::share_done(const Share& share) {
  if (--steps_[share.step].parts_left == 0) end_step(share.step);
}

void StepGraph::end_step(Step step) {
  work_->end(step);
  ++ended_count_;
  for (std::uint32_t user = steps_[step].first_user; user != kNone; user = users_[user].next) {
    const Step next = users_[user].step;
    if (--steps_[next].missing == 0) ready_.push(next);
  }
}

void StepGraph::note_failure() {
  if (failure_ == nullptr) failure_ = std::current_exception();
}

}  // namespace kernbench::sim
