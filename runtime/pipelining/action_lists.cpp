#include "runtime/pipelining/action_lists.h"

#include <algorithm>
#include <map>
#include <optional>

#include "sim_engine/base/error.h"

namespace kernbench::distributed::pipelining {

namespace {

int stages_per_rank(const PipelineSize& size) {
  if (size.ranks < 1 || size.stages < 1 || size.stages % size.ranks != 0) {
    throw CollectiveError("KB-C024",
                          "num_stages ({}) must be evenly divisible by the number of ranks ({})",
                          size.stages, size.ranks);
  }
  if (size.microbatches < 1) {
    throw CollectiveError("KB-C024", "Number of microbatches ({}) must be at least 1",
                          size.microbatches);
  }
  return size.stages / size.ranks;
}

void check_single_stage(const PipelineSize& size) {
  const int count = stages_per_rank(size);
  if (count == 1) return;
  throw CollectiveError("KB-C024",
                        "Single stage schedule requires exactly 1 stage per rank, but got {} "
                        "stages per rank.",
                        count);
}

int check_multi_stage(const PipelineSize& size) {
  const int count = stages_per_rank(size);
  if (count > 1) return count;
  throw CollectiveError("KB-C024",
                        "Multi-stage schedule requires at least 2 stages per rank, but got {} "
                        "stages per rank.",
                        count);
}

// Makes the lists of ranks, each from `list_of(rank)`.
template <class ListOf>
ActionLists for_ranks(const PipelineSize& size, ListOf list_of) {
  ActionLists lists;
  for (int rank = 0; rank < size.ranks; ++rank) lists.push_back(list_of(rank));
  return lists;
}

// A rank's list in which `warm_up` forwards come first, then a backward after each forward, then
// the other backwards.  `forward(i)` and `backward(i)` are the i-th of each.
template <class Forward, class Backward>
std::vector<Action> alternate(int count, int warm_up, Forward forward, Backward backward) {
  std::vector<Action> list;
  for (int i = 0; i < std::min(warm_up, count); ++i) list.push_back(forward(i));
  for (int i = 0; i < count; ++i) {
    if (warm_up + i < count) list.push_back(forward(warm_up + i));
    list.push_back(backward(i));
  }
  return list;
}

// The same with backwards in two halves.  Those for the weights come `deferred` backwards later.
template <class At>
std::vector<Action> alternate_split(int count, int warm_up, int deferred, At at) {
  std::vector<Action> list;
  for (int i = 0; i < std::min(warm_up, count); ++i) list.push_back(at(i, ActionKind::forward));
  for (int i = 0; i < count + deferred; ++i) {
    if (warm_up + i < count) list.push_back(at(warm_up + i, ActionKind::forward));
    if (i < count) list.push_back(at(i, ActionKind::backward_input));
    if (i >= deferred) list.push_back(at(i - deferred, ActionKind::backward_weight));
  }
  return list;
}

// The i-th computation of a rank that takes micro-batches in rounds, all of a round through one of
// its stages after the other.
struct InRounds {
  int ranks = 1;
  int stages_per_rank = 1;
  int round = 1;  // micro-batches
  int rank = 0;

  Action at(int i, ActionKind kind) const {
    const int step = i / round % stages_per_rank;
    const int local = kind == ActionKind::forward ? step : stages_per_rank - 1 - step;
    const int microbatch = i / (round * stages_per_rank) * round + i % round;
    return {.stage = local * ranks + rank, .kind = kind, .microbatch = microbatch};
  }
};

// Returns Megatron's order of a rank's computations.  Throws as interleaved() does.
InRounds in_rounds(std::string_view name, const PipelineSize& size, int rank) {
  const int rounds = std::max(1, size.microbatches / size.ranks);
  if (size.microbatches % rounds != 0) {
    throw CollectiveError("KB-C024",
                          "{} requires the number of microbatches to be a multiple of the number "
                          "of rounds ({}), but got {}.",
                          name, rounds, size.microbatches);
  }
  return {.ranks = size.ranks,
          .stages_per_rank = size.stages / size.ranks,
          .round = size.microbatches / rounds,
          .rank = rank};
}

std::optional<Action> message_for(const Action& computation, ActionKind kind,
                                  const std::map<int, std::size_t>& rank_of, bool is_send) {
  if (!is_compute(computation.kind) || computation.kind == ActionKind::backward_weight) return {};
  const bool is_forward = computation.kind == ActionKind::forward;
  const int other = computation.stage + (is_forward == is_send ? 1 : -1);
  const auto found = rank_of.find(other);
  if (found == rank_of.end() || found->second == rank_of.at(computation.stage)) return {};
  return Action{.stage = computation.stage, .kind = kind, .microbatch = computation.microbatch};
}

// 1F1B, whose warm-up is taken `times`.
ActionLists in_turns(const PipelineSize& size, int times) {
  check_single_stage(size);
  return for_ranks(size, [&](int rank) {
    return alternate(
        size.microbatches, times * (size.ranks - 1 - rank),
        [&](int i) {
          return Action{rank, ActionKind::forward, i};
        },
        [&](int i) {
          return Action{rank, ActionKind::backward, i};
        });
  });
}

// The same with backwards in halves.
ActionLists in_turns_by_halves(const PipelineSize& size, int times) {
  check_single_stage(size);
  return for_ranks(size, [&](int rank) {
    return alternate_split(size.microbatches, times * (size.ranks - 1 - rank), times * rank,
                           [&](int i, ActionKind kind) {
                             return Action{rank, kind, i};
                           });
  });
}

}  // namespace

ActionLists gpipe(const PipelineSize& size) {
  check_single_stage(size);
  return for_ranks(size, [&](int rank) {
    std::vector<Action> list;
    for (const ActionKind kind : {ActionKind::forward, ActionKind::backward}) {
      for (int i = 0; i < size.microbatches; ++i) list.push_back({rank, kind, i});
    }
    return list;
  });
}

ActionLists one_f_one_b(const PipelineSize& size) {
  return in_turns(size, 1);
}

ActionLists eager_one_f_one_b(const PipelineSize& size) {
  return in_turns(size, 2);
}

ActionLists interleaved(const PipelineSize& size) {
  const int per_rank = check_multi_stage(size);
  return for_ranks(size, [&](int rank) {
    const InRounds order = in_rounds("Interleaved 1F1B", size, rank);
    return alternate(
        size.microbatches * per_rank, (per_rank - 1) * order.round + 2 * (size.ranks - 1 - rank),
        [&](int i) { return order.at(i, ActionKind::forward); },
        [&](int i) { return order.at(i, ActionKind::backward); });
  });
}

ActionLists interleaved_zero_bubble(const PipelineSize& size) {
  const int per_rank = check_multi_stage(size);
  return for_ranks(size, [&](int rank) {
    const InRounds order = in_rounds("Zero bubble", size, rank);
    return alternate_split(size.microbatches * per_rank,
                           (per_rank - 1) * order.round + size.ranks - 1 - rank, rank,
                           [&](int i, ActionKind kind) { return order.at(i, kind); });
  });
}

ActionLists zb_h1(const PipelineSize& size) {
  return in_turns_by_halves(size, 1);
}

ActionLists zb_h2(const PipelineSize& size) {
  return in_turns_by_halves(size, 2);
}

ActionLists looped_bfs(const PipelineSize& size) {
  const int per_rank = check_multi_stage(size);
  return for_ranks(size, [&](int rank) {
    std::vector<Action> list;
    for (int local = 0; local < per_rank; ++local) {
      for (int i = 0; i < size.microbatches; ++i) {
        list.push_back({local * size.ranks + rank, ActionKind::forward, i});
      }
    }
    for (int local = per_rank; local-- > 0;) {
      for (int i = size.microbatches; i-- > 0;) {
        list.push_back({local * size.ranks + rank, ActionKind::backward, i});
      }
    }
    return list;
  });
}

ActionLists add_messages(const ActionLists& computations, int receives_ahead) {
  const auto ahead = static_cast<std::size_t>(receives_ahead);
  std::map<int, std::size_t> rank_of;
  for (std::size_t rank = 0; rank < computations.size(); ++rank) {
    for (const Action& action : computations[rank]) {
      if (is_compute(action.kind)) rank_of[action.stage] = rank;
    }
  }
  ActionLists lists;
  for (const std::vector<Action>& row : computations) {
    std::vector<Action>& list = lists.emplace_back();
    const auto add = [&](std::size_t i, bool is_send) {
      if (i >= row.size()) return;
      const bool is_forward = row[i].kind == ActionKind::forward;
      const ActionKind kind =
          is_send ? (is_forward ? ActionKind::send_forward : ActionKind::send_backward)
                  : (is_forward ? ActionKind::receive_forward : ActionKind::receive_backward);
      if (const auto message = message_for(row[i], kind, rank_of, is_send)) {
        list.push_back(*message);
      }
    };
    for (std::size_t i = 0; i < ahead; ++i) add(i, false);
    for (std::size_t i = 0; i < row.size(); ++i) {
      add(i + ahead, false);
      list.push_back(row[i]);
      add(i, true);
    }
  }
  return lists;
}

bool has_messages(const ActionLists& lists) {
  return std::ranges::any_of(lists, [](const std::vector<Action>& row) {
    return std::ranges::any_of(row, [](const Action& each) {
      return !is_compute(each.kind) && has_microbatch(each.kind);
    });
  });
}

}  // namespace kernbench::distributed::pipelining
