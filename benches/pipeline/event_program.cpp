#include "benches/pipeline/event_program.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <utility>

#include "sim_engine/base/check.h"

namespace kernbench::benches::pipeline {

namespace {

using distributed::pipelining::Action;
using distributed::pipelining::ActionKind;
using distributed::pipelining::ActionLists;

class Program {
 public:
  Program(const ActionLists& lists, const std::vector<TimesOfStage>& stages,
          const MessageTimes& message)
      : lists_(lists),
        stages_(stages),
        message_(message),
        ends_(lists.size()),
        launched_(lists.size()) {
    for (std::size_t rank = 0; rank < lists.size(); ++rank) {
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
    double idle = 0;
    for (std::size_t rank = 0; rank < lists_.size(); ++rank) {
      KB_CHECK(ends_[rank].size() == lists_[rank].size(), "rank {} waits", rank);
      times.ends.push_back(ends_[rank].back());
      for (const Action& action : lists_[rank]) idle -= cost_of(action);
    }
    times.launched = launched_;
    times.end = *std::ranges::max_element(times.ends);
    const auto ranks = static_cast<double>(lists_.size());
    times.bubble = times.end + idle / ranks;
    return times;
  }

 private:
  double cost_of(const Action& action) const {
    const TimesOfStage& stage = stages_.at(static_cast<std::size_t>(action.stage));
    return time_of(action, action.microbatch == 0                   ? stage.first
                           : action.microbatch == microbatches_ - 1 ? stage.last
                                                                    : stage.later);
  }

  static double time_of(const Action& action, const StageTimes& times) {
    switch (action.kind) {
      case ActionKind::forward:
        return times.forward;
      case ActionKind::backward:
        return times.backward;
      case ActionKind::backward_input:
        return times.input;
      default:
        return times.weight;
    }
  }

  // Returns false if the rank's next computation waits for one that is not done, or there is none.
  bool run_next(std::size_t rank) {
    std::vector<double>& ends = ends_[rank];
    if (ends.size() == lists_[rank].size()) return false;
    const Action& action = lists_[rank][ends.size()];
    const std::optional<double> ready = find_ready(action, rank);
    if (!ready) return false;
    const double free = ends.empty() ? 0 : ends.back() + issue_before(rank, ends.size());
    double& launched = launched_[rank];
    const double start = std::max({*ready, free, launched});
    launched += time_of(action, stages_.at(static_cast<std::size_t>(action.stage)).host) +
                message_.launch * (is_sent(action) + is_received(action));
    const double end = std::max(start + cost_of(action), launched);
    ends.push_back(end);
    done_[action] = end;
    return true;
  }

  // Messages between a computation and the one before it hold it up.
  double issue_before(std::size_t rank, std::size_t i) const {
    const std::vector<Action>& list = lists_[rank];
    const bool has_message =
        is_sent(list[i - 1]) || (i + 1 < list.size() && is_received(list[i + 1]));
    return has_message ? message_.issue : 0;
  }

  bool is_on_other_rank(int stage, const Action& than) const {
    return rank_of_.contains(stage) && rank_of_.at(stage) != rank_of_.at(than.stage);
  }
  bool is_sent(const Action& action) const {
    if (action.kind == ActionKind::backward_weight) return false;
    return is_on_other_rank(action.stage + (action.kind == ActionKind::forward ? 1 : -1), action);
  }
  bool is_received(const Action& action) const {
    if (action.kind == ActionKind::backward_weight) return false;
    return is_on_other_rank(action.stage + (action.kind == ActionKind::forward ? -1 : 1), action);
  }

  // Returns when the values are there that a computation takes from another stage.
  std::optional<double> find_ready(const Action& action, std::size_t rank) {
    const bool is_forward = action.kind == ActionKind::forward;
    if (action.kind == ActionKind::backward_weight) return 0;
    const int from = action.stage + (is_forward ? -1 : 1);
    if (from < 0 || from == static_cast<int>(stages_.size())) return 0;
    const std::optional<double> made = find_made(from, is_forward, action.microbatch);
    if (!made || rank_of_.at(from) == rank) return made;
    const std::vector<double>& ends = ends_[rank];
    const double posted = ends.size() < 2 ? 0 : ends[ends.size() - 2];
    double& link = links_[{rank_of_.at(from), rank}];
    link = std::max({*made, posted, link}) + message_.send;
    return link;
  }

  std::optional<double> find_made(int stage, bool is_forward, int microbatch) const {
    for (const ActionKind kind :
         {ActionKind::forward, ActionKind::backward, ActionKind::backward_input}) {
      if ((kind == ActionKind::forward) != is_forward) continue;
      const auto found = done_.find({stage, kind, microbatch});
      if (found != done_.end()) return found->second;
    }
    return {};
  }

  const ActionLists& lists_;
  const std::vector<TimesOfStage>& stages_;
  const MessageTimes message_;
  int microbatches_ = 0;
  std::map<int, std::size_t> rank_of_;  // of a stage
  std::vector<std::vector<double>> ends_;
  std::vector<double> launched_;  // when each rank's host has launched what it has come to
  std::map<Action, double> done_;
  std::map<std::pair<std::size_t, std::size_t>, double> links_;  // when one is free
};

}  // namespace

ProgramTimes run_program(const ActionLists& computations, const std::vector<TimesOfStage>& stages,
                         const MessageTimes& message) {
  return Program(computations, stages, message).run();
}

}  // namespace kernbench::benches::pipeline
