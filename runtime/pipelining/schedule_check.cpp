#include "runtime/pipelining/schedule_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "sim_engine/base/error.h"

namespace kernbench::distributed::pipelining {

namespace {

template <class... Arguments>
[[noreturn]] void refuse_schedule(fmt::format_string<Arguments...> text, Arguments&&... arguments) {
  throw CollectiveError("KB-C024", fmt::format(text, std::forward<Arguments>(arguments)...));
}

class ScheduleWalk {
 public:
  ScheduleWalk(const ActionLists& lists, int microbatches)
      : lists_(lists), microbatches_(microbatches), next_(lists.size()) {
    place_actions();
    find_ranks();
    check_neighbours();
  }

  CheckedSchedule walk() {
    bool has_moved = true;
    while (has_moved) {
      has_moved = false;
      for (std::size_t rank = 0; rank < lists_.size(); ++rank) {
        while (!is_at_end(rank) && !find_missing(at(rank))) {
          perform(at(rank));
          ++next_[rank];
          has_moved = true;
        }
      }
    }
    for (std::size_t rank = 0; rank < lists_.size(); ++rank) {
      if (!is_at_end(rank)) report_circle(rank);
    }
    return std::move(result_);
  }

 private:
  bool is_at_end(std::size_t rank) const { return next_[rank] == lists_[rank].size(); }
  const Action& at(std::size_t rank) const { return lists_[rank][next_[rank]]; }
  bool is_last(int stage) const { return stage == result_.stages - 1; }

  // Finds the rank of each action.
  void place_actions() {
    for (std::size_t rank = 0; rank < lists_.size(); ++rank) {
      if (lists_[rank].empty()) refuse_schedule("rank {} has no action", rank);
      for (const Action& action : lists_[rank]) {
        result_.stages = std::max(result_.stages, action.stage + 1);
        if (action.microbatch >= microbatches_) {
          refuse_schedule("rank {}: {} is of micro-batch {}, but there are {}", rank,
                          to_string(action), action.microbatch, microbatches_);
        }
        const bool is_new = rank_of_.emplace(action, rank).second;
        if (!is_new && (has_microbatch(action.kind) || rank_of_.at(action) != rank)) {
          refuse_schedule("{} is there twice, on ranks {} and {}", to_string(action),
                          rank_of_.at(action), rank);
        }
      }
    }
  }

  // Throws unless a stage runs a micro-batch forward, and backward as a whole or in two halves.
  void check_has(int stage, int microbatch) const {
    const auto has = [&](ActionKind kind) { return rank_of_.contains({stage, kind, microbatch}); };
    const auto refuse_missing = [&](ActionKind kind) {
      refuse_schedule(
          "there is no {}: each of the {} stages runs F and B, or I and W, of each of the {} "
          "micro-batches once",
          to_string({stage, kind, microbatch}), result_.stages, microbatches_);
    };
    if (!has(ActionKind::forward)) refuse_missing(ActionKind::forward);
    const bool has_input = has(ActionKind::backward_input);
    const bool has_weight = has(ActionKind::backward_weight);
    if (!has(ActionKind::backward)) {
      if (!has_input && !has_weight) refuse_missing(ActionKind::backward);
      if (!has_input) refuse_missing(ActionKind::backward_input);
      if (!has_weight) refuse_missing(ActionKind::backward_weight);
    } else if (has_input || has_weight) {
      refuse_schedule(
          "there are {} and {}: B is both I and W",
          to_string({stage, ActionKind::backward, microbatch}),
          to_string({stage, has_input ? ActionKind::backward_input : ActionKind::backward_weight,
                     microbatch}));
    }
  }

  // Finds the rank of each stage, which has all of its actions.
  void find_ranks() {
    for (int stage = 0; stage < result_.stages; ++stage) {
      for (int i = 0; i < microbatches_; ++i) check_has(stage, i);
      const std::size_t rank = rank_of_.at({stage, ActionKind::forward, 0});
      result_.rank_of_stage.push_back(static_cast<int>(rank));
    }
    result_.peaks.resize(static_cast<std::size_t>(result_.stages));
    live_.resize(result_.peaks.size());
    result_.peaks_of_ranks.resize(lists_.size());
    live_of_ranks_.resize(lists_.size());
    result_.peaks_of_weights.resize(lists_.size());
    live_weights_.resize(lists_.size());
    for (const auto& [action, rank] : rank_of_) {
      if (rank == rank_of_stage(action.stage)) continue;
      refuse_schedule("rank {}: {} is of stage {}, which is on rank {}", rank, to_string(action),
                      action.stage, rank_of_stage(action.stage));
    }
  }

  std::size_t rank_of_stage(int stage) const {
    return static_cast<std::size_t>(result_.rank_of_stage[static_cast<std::size_t>(stage)]);
  }

  // Returns the other end of a message; nullopt if its stage has none there.
  std::optional<Action> other_end(const Action& message) const {
    const bool is_send =
        message.kind == ActionKind::send_forward || message.kind == ActionKind::send_backward;
    const bool is_forward = is_of_forward(message.kind);
    const int stage = message.stage + (is_forward == is_send ? 1 : -1);
    if (stage < 0 || stage >= result_.stages) return {};
    if (rank_of_stage(stage) == rank_of_stage(message.stage)) return {};
    const ActionKind kind =
        is_forward ? (is_send ? ActionKind::receive_forward : ActionKind::send_forward)
                   : (is_send ? ActionKind::receive_backward : ActionKind::send_backward);
    return Action{stage, kind, message.microbatch};
  }

  // Checks that each message has its other end, and each computation its message.
  void check_neighbours() const {
    for (const auto& [action, rank] : rank_of_) {
      if (!has_microbatch(action.kind) || action.kind == ActionKind::backward_weight) continue;
      if (is_compute(action.kind)) {
        const Action receive = receive_of(action);
        if (other_end(receive) && !rank_of_.contains(receive)) {
          refuse_schedule("rank {}: there is no {}, which {} needs", rank, to_string(receive),
                          to_string(action));
        }
        continue;
      }
      const auto other = other_end(action);
      if (!other) refuse_schedule("rank {}: {} has no other rank", rank, to_string(action));
      if (!rank_of_.contains(*other)) {
        refuse_schedule("rank {}: {} has no {} on rank {}", rank, to_string(action),
                        to_string(*other), rank_of_stage(other->stage));
      }
    }
  }

  static Action receive_of(const Action& computation) {
    return {computation.stage,
            computation.kind == ActionKind::forward ? ActionKind::receive_forward
                                                    : ActionKind::receive_backward,
            computation.microbatch};
  }

  // Returns an action that must be done before this one, and is not.
  std::optional<Action> find_missing(const Action& action) const {
    const std::vector<Action> needs = needs_of(action);
    const auto missing =
        std::ranges::find_if(needs, [&](const Action& need) { return !done_.contains(need); });
    return missing == needs.end() ? std::nullopt : std::optional(*missing);
  }

  // Returns the action that makes the gradient of a stage's input.
  Action backward_of(int stage, int microbatch) const {
    const Action whole{stage, ActionKind::backward, microbatch};
    return rank_of_.contains(whole) ? whole : Action{stage, ActionKind::backward_input, microbatch};
  }

  // Returns what makes the gradients of a stage's parameters.
  std::vector<Action> backwards_of(int stage) const {
    std::vector<Action> all;
    for (int i = 0; i < microbatches_; ++i) {
      const Action whole{stage, ActionKind::backward, i};
      all.push_back(rank_of_.contains(whole) ? whole
                                             : Action{stage, ActionKind::backward_weight, i});
    }
    return all;
  }

  std::vector<Action> needs_of(const Action& action) const {
    const auto [stage, kind, microbatch] = action;
    switch (kind) {
      case ActionKind::send_forward:
        return {{stage, ActionKind::forward, microbatch}};
      case ActionKind::send_backward:
        return {backward_of(stage, microbatch)};
      case ActionKind::forward:
        if (stage == 0) return {};
        return needs_of_values(action, {stage - 1, ActionKind::forward, microbatch});
      case ActionKind::backward:
      case ActionKind::backward_input: {
        std::vector<Action> needs;
        if (!is_last(stage)) needs = needs_of_values(action, backward_of(stage + 1, microbatch));
        needs.insert(needs.begin(), {stage, ActionKind::forward, microbatch});
        return needs;
      }
      case ActionKind::backward_weight:
        return {{stage, ActionKind::backward_input, microbatch}};
      case ActionKind::reduce_grad:
        return backwards_of(stage);
      default:
        return {};
    }
  }

  // The values that a computation takes from a neighbour's.
  std::vector<Action> needs_of_values(const Action& action, const Action& made_by) const {
    const Action receive = receive_of(action);
    const auto send = other_end(receive);
    if (!send) return {made_by};  // on the same rank
    return {receive, *send};
  }

  void perform(const Action& action) {
    done_.insert(action);
    const std::size_t rank = rank_of_stage(action.stage);
    const auto count = [](std::vector<int>& live, std::vector<int>& peaks, std::size_t i,
                          int change) {
      live[i] += change;
      peaks[i] = std::max(peaks[i], live[i]);
    };
    if (action.kind == ActionKind::forward || is_backward(action.kind)) {
      const int change = action.kind == ActionKind::forward ? 1 : -1;
      count(live_, result_.peaks, static_cast<std::size_t>(action.stage), change);
      count(live_of_ranks_, result_.peaks_of_ranks, rank, change);
    }
    if (action.kind == ActionKind::backward_input) {
      count(live_weights_, result_.peaks_of_weights, rank, 1);
    }
    if (action.kind == ActionKind::backward_weight) --live_weights_[rank];
  }

  // Each rank waits for an action of a rank that waits as well, so that following them ends in a
  // circle.
  [[noreturn]] void report_circle(std::size_t rank) const {
    std::vector<std::size_t> path;
    while (std::ranges::find(path, rank) == path.end()) {
      path.push_back(rank);
      rank = rank_of_.at(find_missing(at(rank)).value());
    }
    path.erase(path.begin(), std::ranges::find(path, rank));
    std::string text = "the pipeline schedule would hang:";
    for (const std::size_t each : path) {
      const Action need = find_missing(at(each)).value();
      text += fmt::format("\n  rank {}: {} waits for {}, which is behind {} on rank {}", each,
                          to_string(at(each)), to_string(need), to_string(at(rank_of_.at(need))),
                          rank_of_.at(need));
    }
    throw DeadlockError("KB-D005", text);
  }

  const ActionLists& lists_;
  const int microbatches_;
  std::vector<std::size_t> next_;  // by rank: the place in its list
  std::map<Action, std::size_t> rank_of_;
  std::set<Action> done_;
  std::vector<int> live_;  // by stage: forwards without their backward
  std::vector<int> live_of_ranks_;
  std::vector<int> live_weights_;  // by rank: halves for inputs without those for weights
  CheckedSchedule result_;
};

}  // namespace

CheckedSchedule check_schedule(const ActionLists& lists, int microbatches) {
  return ScheduleWalk(lists, microbatches).walk();
}

}  // namespace kernbench::distributed::pipelining
