#include "benches/pipeline/event_program.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

#include "sim_engine/base/check.h"

namespace kernbench::benches::pipeline {

namespace {

using distributed::pipelining::Action;
using distributed::pipelining::ActionKind;
using distributed::pipelining::ActionLists;

struct RankOfProgram {
  std::size_t next = 0;  // in its list
  Clocks clocks;
  Time computing{0};
  Time computed{0};  // the end of its last computation
};

class Program {
 public:
  Program(const ActionLists& lists, const std::vector<CostsOfStage>& stages,
          const MessageTimes& message)
      : lists_(lists), stages_(stages), message_(message), ranks_(lists.size()) {
    for (std::size_t rank = 0; rank < lists.size(); ++rank) {
      ranks_[rank].clocks.device = message.host_leg;
      for (const Action& action : lists[rank]) {
        rank_of_[action.stage] = rank;
        microbatches_ = std::max(microbatches_, action.microbatch + 1);
      }
    }
  }

  ProgramTimes run() {
    for (bool has_moved = true; has_moved;) {
      has_moved = false;
      for (std::size_t rank = 0; rank < lists_.size(); ++rank) {
        while (run_next(rank)) has_moved = true;
      }
    }
    ProgramTimes times;
    Time computing{0};
    for (std::size_t rank = 0; rank < lists_.size(); ++rank) {
      KB_CHECK(ranks_[rank].next == lists_[rank].size(), "rank {} waits", rank);
      times.step = std::max(times.step, run_tail(rank) - message_.host_leg);
      times.computed = std::max(times.computed, ranks_[rank].computed - message_.host_leg);
      computing += ranks_[rank].computing;
    }
    times.bubble = times.computed - computing / static_cast<std::int64_t>(ranks_.size());
    return times;
  }

 private:
  // A message by the stage that makes it, and what it is of.
  static Action message_of(const Action& action) {
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

  const CostsOfStage& stage_of(const Action& action) const {
    return stages_.at(static_cast<std::size_t>(action.stage));
  }
  const Cost& cost_of(const Action& action) const {
    const CostsOfStage& stage = stage_of(action);
    const CostsOfPass& pass = action.microbatch == 0                   ? stage.first
                              : action.microbatch == microbatches_ - 1 ? stage.last
                                                                       : stage.later;
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

  // Returns false if the rank's next action waits for a message that has not begun, or there is no
  // such action.
  bool run_next(std::size_t rank) {
    RankOfProgram& own = ranks_[rank];
    if (own.next == lists_[rank].size()) return false;
    const Action& action = lists_[rank][own.next];
    if (!is_compute(action.kind)) {
      own.clocks.host = std::max(own.clocks.host, own.clocks.device + message_.host_leg);
      begin_message(action, rank);
    } else if (!compute(action, rank)) {
      return false;
    }
    ++own.next;
    return true;
  }

  bool compute(const Action& action, std::size_t rank) {
    RankOfProgram& own = ranks_[rank];
    const Action message = message_of(action);
    const auto maker = rank_of_.find(message.stage);
    if (message != action && maker != rank_of_.end() && maker->second != rank) {
      const auto arrival = arrivals_.find(message);
      if (arrival == arrivals_.end()) return false;
      own.clocks.host = std::max(own.clocks.host, arrival->second);
    }
    const Time begin = std::max(own.clocks.device, own.clocks.host + message_.host_leg);
    own.clocks = cost_of(action).after(own.clocks);
    own.computed = own.clocks.device;
    own.computing += own.computed - begin;
    return true;
  }

  // The message moves when both ranks have begun it, and its link is free.
  void begin_message(const Action& action, std::size_t rank) {
    const Action message = message_of(action);
    const auto [other, is_first] = begun_.try_emplace(message, ranks_[rank].clocks.host, rank);
    if (is_first) return;
    const auto& [at, other_rank] = other->second;
    const bool is_send = message == action;
    Time& link = links_[is_send ? std::pair{rank, other_rank} : std::pair{other_rank, rank}];
    link = std::max({link, at, ranks_[rank].clocks.host}) + message_.transfer;
    arrivals_[message] = link;
  }

  Time run_tail(std::size_t rank) {
    Clocks clocks = ranks_[rank].clocks;
    for (const Action& action : lists_[rank]) {
      const auto arrival = arrivals_.find(action);
      if (arrival != arrivals_.end()) clocks.host = std::max(clocks.host, arrival->second);
    }
    for (const Cost CostsOfStage::*part : {&CostsOfStage::gradients, &CostsOfStage::optimizer}) {
      for (const auto& [stage, rank_of_stage] : rank_of_) {
        if (rank_of_stage != rank) continue;
        clocks = (stages_.at(static_cast<std::size_t>(stage)).*part).after(clocks);
      }
    }
    return clocks.device;
  }

  const ActionLists& lists_;
  const std::vector<CostsOfStage>& stages_;
  const MessageTimes message_;
  int microbatches_ = 0;
  std::map<int, std::size_t> rank_of_;  // of a stage
  std::vector<RankOfProgram> ranks_;
  std::map<Action, std::pair<Time, std::size_t>> begun_;       // by the first rank of a message
  std::map<Action, Time> arrivals_;                            // of messages
  std::map<std::pair<std::size_t, std::size_t>, Time> links_;  // when one is free
};

}  // namespace

Clocks Cost::after(const Clocks& clocks) const {
  return {.host = clocks.host + launching,
          .device = std::max(clocks.host + idle, clocks.device + queued)};
}

ProgramTimes run_program(const ActionLists& lists, const std::vector<CostsOfStage>& stages,
                         const MessageTimes& message) {
  return Program(lists, stages, message).run();
}

}  // namespace kernbench::benches::pipeline
