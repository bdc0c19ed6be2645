#include "benches/pipeline/event_program.h"

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "sim_engine/base/check.h"

namespace kernbench::benches::pipeline {

namespace {

using distributed::pipelining::Action;
using distributed::pipelining::ActionKind;
using distributed::pipelining::ActionLists;

struct Member {
  std::size_t replica = 0;
  std::size_t rank = 0;  // of the lists
  Clocks clocks;
  std::size_t next = 0;  // in its list
  Time computing{0};
  Time computed{0};  // the end of its last computation
};

// A message is known by the action that sends it.
struct Message {
  Action send;
  std::size_t replica = 0;

  friend auto operator<=>(const Message&, const Message&) = default;
};

class Program {
 public:
  Program(const ActionLists& lists, const std::vector<CostsOfStage>& stages,
          const MessageTimes& message, std::size_t replicas, bool optimizers_meet)
      : lists_(lists),
        stages_(stages),
        message_(message),
        replicas_(replicas),
        optimizers_meet_(optimizers_meet) {
    for (std::size_t rank = 0; rank < lists.size(); ++rank) {
      for (std::size_t replica = 0; replica < replicas; ++replica) {
        members_.push_back(
            {.replica = replica, .rank = rank, .clocks = {.device = message.host_leg}});
      }
      for (const Action& action : lists[rank]) {
        rank_of_[action.stage] = rank;
        if (is_compute(action.kind)) last_of_[action.stage] = action;
        microbatches_ = std::max(microbatches_, action.microbatch + 1);
      }
    }
  }

  // A message that moves now lets nobody begin another one before it: so they move in their order.
  ProgramTimes run() {
    do {
      run_until_all_wait();
    } while (move_message());
    ProgramTimes times;
    Time computing{0};
    Time all_reduced{0};
    for (Member& own : members_) {
      KB_CHECK(own.next == lists_[own.rank].size(), "rank {} waits", own.rank);
      reduce_gradients(own);
      all_reduced = std::max(all_reduced, own.clocks.device);
    }
    for (const Member& own : members_) {
      Clocks clocks = own.clocks;
      if (optimizers_meet_) clocks.device = all_reduced;
      for (const int stage : stages_of(own)) clocks = this->stage(stage).optimizer.after(clocks);
      times.step = std::max(times.step, clocks.device - message_.host_leg);
      times.computed = std::max(times.computed, own.computed - message_.host_leg);
      computing += own.computing;
    }
    times.bubble = times.computed - computing / static_cast<std::int64_t>(members_.size());
    return times;
  }

 private:
  // Returns the action that sends what a computation takes, or a receive; else the action itself.
  static Action send_of(const Action& action) {
    switch (action.kind) {
      case ActionKind::forward:
      case ActionKind::receive_forward:
        return {action.stage - 1, ActionKind::send_forward, action.microbatch};
      case ActionKind::backward:
      case ActionKind::backward_input:
      case ActionKind::receive_backward:
        return {action.stage + 1, ActionKind::send_backward, action.microbatch};
      default:
        return action;
    }
  }

  const CostsOfStage& stage(int index) const { return stages_.at(static_cast<std::size_t>(index)); }
  const Cost& cost_of(const Action& action) const {
    const CostsOfStage& own = stage(action.stage);
    const CostsOfPass& pass = action.microbatch == 0                   ? own.first
                              : action.microbatch == microbatches_ - 1 ? own.last
                                                                       : own.later;
    switch (action.kind) {
      case ActionKind::forward:
        return pass.forward;
      case ActionKind::backward:
        return pass.backward;
      case ActionKind::backward_input:
        return pass.input;
      default:
        return pass.weight;
    }
  }

  void run_until_all_wait() {
    for (bool has_moved = true; has_moved;) {
      has_moved = false;
      for (Member& own : members_) {
        while (run_next(own)) has_moved = true;
      }
    }
  }

  // Returns false if the member's next action has to wait, or there is none.
  bool run_next(Member& own) {
    if (own.next == lists_[own.rank].size()) return false;
    const Action& action = lists_[own.rank][own.next];
    if (!is_compute(action.kind)) {
      own.clocks.host = std::max(own.clocks.host, own.clocks.device + message_.host_leg);
      begin_message({send_of(action), own.replica}, own.clocks.host);
    } else if (!compute(action, own)) {
      return false;
    }
    ++own.next;
    return true;
  }

  bool compute(const Action& action, Member& own) {
    Clocks clocks = own.clocks;
    const Action send = send_of(action);
    const auto maker = rank_of_.find(send.stage);
    if (send != action && maker != rank_of_.end() && maker->second != own.rank) {
      const auto arrival = arrivals_.find({send, own.replica});
      if (arrival == arrivals_.end()) return false;
      clocks.host = std::max(clocks.host, arrival->second);
    }
    const Time begin = std::max(clocks.device, clocks.host + message_.host_leg);
    clocks = cost_of(action).after(clocks);
    if (last_of_.at(action.stage) == action && !wait_for_replicas(action, own, clocks)) {
      return false;
    }
    own.clocks = clocks;
    own.computed = clocks.device;
    own.computing += own.computed - begin;
    return true;
  }

  // The last computation of a stage ends with gradients that its replicas reduce together.
  bool wait_for_replicas(const Action& action, const Member& own, Clocks& clocks) {
    auto& ends = ends_of_replicas_[action];
    ends[own.replica] = clocks.device;
    if (ends.size() < replicas_) return false;
    for (const auto& [replica, end] : ends) clocks.device = std::max(clocks.device, end);
    return true;
  }

  void begin_message(const Message& message, Time at) {
    const auto [other, is_first] = begun_.try_emplace(message, at);
    if (!is_first) ready_.emplace(std::max(other->second, at), message);
  }

  // Moves the first of the messages that both of their ranks have begun; false if there is none.
  bool move_message() {
    if (ready_.empty()) return false;
    const auto [begun, message] = ready_.extract(ready_.begin()).value();
    const int to = message.send.stage + (message.send.kind == ActionKind::send_forward ? 1 : -1);
    Time& link = links_[{rank_of_.at(message.send.stage), rank_of_.at(to)}];
    const Time begin = std::max(begun, link);
    link = begin + message_.occupied;
    arrivals_[message] = begin + message_.transfer;
    return true;
  }

  std::vector<int> stages_of(const Member& own) const {
    std::vector<int> stages;
    for (const auto& [index, rank] : rank_of_) {
      if (rank == own.rank) stages.push_back(index);
    }
    return stages;
  }

  // Waits for all that the member has sent, and for its gradients' collectives.
  void reduce_gradients(Member& own) const {
    Clocks& clocks = own.clocks;
    for (const Action& action : lists_[own.rank]) {
      const auto arrival = arrivals_.find({action, own.replica});
      if (arrival != arrivals_.end()) clocks.host = std::max(clocks.host, arrival->second);
    }
    for (const int index : stages_of(own)) {
      for (const auto& [replica, end] : ends_of_replicas_.at(last_of_.at(index))) {
        clocks.device = std::max(clocks.device, end + stage(index).reduction);
      }
      clocks = stage(index).gradients.after(clocks);
    }
  }

  const ActionLists& lists_;
  const std::vector<CostsOfStage>& stages_;
  const MessageTimes message_;
  const std::size_t replicas_;
  const bool optimizers_meet_;
  int microbatches_ = 0;
  std::map<int, std::size_t> rank_of_;  // of a stage
  std::map<int, Action> last_of_;       // of a stage: its last computation
  std::vector<Member> members_;
  std::map<Message, Time> begun_;             // by the first rank of a message
  std::set<std::pair<Time, Message>> ready_;  // both ranks have begun it
  std::map<Message, Time> arrivals_;
  std::map<std::pair<std::size_t, std::size_t>, Time> links_;  // when one is free
  std::map<Action, std::map<std::size_t, Time>> ends_of_replicas_;
};

}  // namespace

Clocks Cost::after(const Clocks& clocks) const {
  return {.host = clocks.host + launching,
          .device = std::max(clocks.host + idle, clocks.device + queued)};
}

Cost Cost::then(const Cost& next) const {
  return {.launching = launching + next.launching,
          .idle = next.after({.host = launching, .device = idle}).device,
          .queued = queued + next.queued};
}

ProgramTimes run_program(const ActionLists& lists, const std::vector<CostsOfStage>& stages,
                         const MessageTimes& message, int replicas, bool optimizers_meet) {
  return Program(lists, stages, message, static_cast<std::size_t>(replicas), optimizers_meet).run();
}

}  // namespace kernbench::benches::pipeline
