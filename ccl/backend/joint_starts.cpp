#include "ccl/backend/joint_starts.h"

#include <algorithm>
#include <utility>

namespace kernbench::ccl {

void JointStarts::wait(std::uint64_t operation, bool is_last, runtime::DescribeWait describe) {
  runtime::Completion goes_on(simulation_);
  std::exception_ptr failure;
  waiting_[operation].push_back({calls_++, &goes_on, &failure});
  if (is_last) {
    if (due_.empty()) {
      simulation_.machine().engine().schedule_last(sim::Engine::call<&JointStarts::begin>(this));
    }
    const std::vector<Waiter> members = std::move(waiting_.extract(operation).mapped());
    due_.insert(due_.end(), members.begin(), members.end());
  }
  try {
    simulation_.wait(goes_on, describe);
  } catch (...) {
    forget(operation, goes_on);
    throw;
  }
  if (failure != nullptr) std::rethrow_exception(failure);
}

void JointStarts::give_up(std::uint64_t operation, const std::exception_ptr& why) {
  const auto found = waiting_.extract(operation);
  if (!found) return;  // all have called
  for (const Waiter& member : found.mapped()) {
    *member.failure = why;
    member.goes_on->signal();
  }
}

void JointStarts::begin() {
  std::ranges::sort(due_, {}, &Waiter::number);
  for (const Waiter& member : std::exchange(due_, {})) member.goes_on->signal();
}

// The run is over.
void JointStarts::forget(std::uint64_t operation, const runtime::Completion& gone) {
  std::erase_if(due_, [&](const Waiter& member) { return member.goes_on == &gone; });
  const auto found = waiting_.find(operation);
  if (found == waiting_.end()) return;
  std::erase_if(found->second, [&](const Waiter& member) { return member.goes_on == &gone; });
  if (found->second.empty()) waiting_.erase(found);
}

}  // namespace kernbench::ccl
