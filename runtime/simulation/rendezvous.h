// The members of a group meet here: each brings a T, and goes on when all have come.

#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/simulation/simulation.h"

namespace kernbench::runtime {

template <class T>
class Rendezvous {
 public:
  explicit Rendezvous(int members) : all_(static_cast<std::size_t>(members)) {}

  // Enters what a member brings.  The last to come wakes those that wait; they go on when it waits
  // for something or ends, so it may still do what all of them need.
  void arrive(int member, T brought) {
    all_.at(static_cast<std::size_t>(member)) = std::move(brought);
    if (++arrived_ == all_.size()) all_have_come_.notify_all();
  }
  bool is_complete() const { return arrived_ == all_.size(); }
  // Blocks until all have come.  Throws what Simulation::wait() does, and what give_up() says.
  void wait(Simulation& simulation, DescribeWait describe) {
    if (is_complete()) return;
    all_have_come_.wait(simulation, describe);
    if (failure_ != nullptr) std::rethrow_exception(failure_);
  }
  // A member will never come: those that wait get an exception.
  void give_up(std::exception_ptr why) {
    failure_ = std::move(why);
    all_have_come_.notify_all();
  }
  // Returns the values that the members have brought, by member.
  const std::vector<T>& all() const { return all_; }

 private:
  std::vector<T> all_;
  std::size_t arrived_ = 0;
  Event all_have_come_;
  std::exception_ptr failure_;
};

// The meetings of one kind, by the number of the operation that the members meet for.
template <class T>
class Meetings {
 public:
  // The member arrives at the operation's meeting, which the first one opens.  The last one removes
  // it; those that take part keep it.
  std::shared_ptr<Rendezvous<T>> arrive(std::uint64_t operation, int members, int member,
                                        T brought) {
    std::shared_ptr<Rendezvous<T>>& entry = meetings_[operation];
    if (entry == nullptr) entry = std::make_shared<Rendezvous<T>>(members);
    const std::shared_ptr<Rendezvous<T>> meeting = entry;
    meeting->arrive(member, std::move(brought));
    if (meeting->is_complete()) meetings_.erase(operation);
    return meeting;
  }
  // Some will never come to the operation's meeting; it may have none.
  void give_up(std::uint64_t operation, const std::exception_ptr& why) {
    if (const auto meeting = meetings_.extract(operation)) meeting.mapped()->give_up(why);
  }
  // Forgets the meetings of a run that was abandoned.
  void clear() { meetings_.clear(); }

 private:
  std::map<std::uint64_t, std::shared_ptr<Rendezvous<T>>> meetings_;
};

}  // namespace kernbench::runtime
