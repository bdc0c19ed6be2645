// Schedules of stages that go down the ranks and up again: rank r of p has stages r and 2 p - 1 -
// r.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <queue>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/pipelining/action_lists.h"
#include "sim_engine/base/error.h"

namespace kernbench::distributed::pipelining {

namespace {

enum class Leg : std::uint8_t { down, up };

// A rank's list, which takes the micro-batches of each leg in order.
class VList {
 public:
  VList(const PipelineSize& size, int rank) : stages_{rank, size.stages - 1 - rank} {}

  void add(ActionKind kind, Leg leg) {
    Counts& counts = counts_[static_cast<std::size_t>(leg)];
    list_.push_back({stages_[static_cast<std::size_t>(leg)], kind, counts.next(kind)});
  }
  // Adds the half for the input; the one for the weights comes with one of the next
  // add_deferred_weight().
  void add_input(Leg leg) {
    add(ActionKind::backward_input, leg);
    deferred_.push(leg);
  }
  void add_deferred_weight() {
    if (deferred_.empty()) return;
    add(ActionKind::backward_weight, deferred_.front());
    deferred_.pop();
  }

  int count(ActionKind kind, Leg leg) const {
    return counts_[static_cast<std::size_t>(leg)].of(kind);
  }
  // Returns the list without micro-batches that there are not.
  std::vector<Action> take(int microbatches) {
    std::erase_if(list_, [&](const Action& each) { return each.microbatch >= microbatches; });
    return std::move(list_);
  }

 private:
  // How many micro-batches have been taken, of each kind.
  struct Counts {
    int forward = 0;
    int input = 0;
    int weight = 0;

    int of(ActionKind kind) const {
      if (kind == ActionKind::forward) return forward;
      return kind == ActionKind::backward_weight ? weight : input;
    }
    int next(ActionKind kind) {
      const int number = of(kind);
      if (kind == ActionKind::forward) ++forward;
      if (is_backward(kind)) ++input;
      if (kind == ActionKind::backward || kind == ActionKind::backward_weight) ++weight;
      return number;
    }
  };

  const std::array<int, 2> stages_;
  std::vector<Action> list_;
  std::array<Counts, 2> counts_ = {};
  std::queue<Leg> deferred_;
};

void check_two_stages(std::string_view name, const PipelineSize& size) {
  const bool divides = size.ranks >= 1 && size.stages % size.ranks == 0;
  if (divides && size.stages == 2 * size.ranks && size.microbatches >= 1) return;
  throw CollectiveError(
      "KB-C024",
      "{} requires exactly 2 stages per rank, but got {} stages on {} ranks for {} "
      "microbatches.",
      name, size.stages, size.ranks, size.microbatches);
}

constexpr ActionKind kForward = ActionKind::forward;
constexpr ActionKind kInput = ActionKind::backward_input;
constexpr ActionKind kWeight = ActionKind::backward_weight;

std::vector<Action> zbv_rank(const PipelineSize& size, int rank) {
  const int p = size.ranks;
  const int count = std::max(2 * p - 1, size.microbatches);  // that fill the pipeline
  VList list(size, rank);
  for (int i = 0; i < 2 * (p - rank) - 1; ++i) list.add(kForward, Leg::down);
  for (int i = 0; i < rank; ++i) {
    list.add(kForward, Leg::up);
    list.add(kForward, Leg::down);
  }
  const auto forward_and_back_up = [&] {
    for (const ActionKind kind : {kForward, kInput, kWeight}) list.add(kind, Leg::up);
  };
  for (int i = 0; i < p - rank; ++i) forward_and_back_up();
  while (list.count(kForward, Leg::up) < count) {
    if (list.count(kForward, Leg::down) < count) list.add(kForward, Leg::down);
    list.add(kInput, Leg::down);
    list.add(kWeight, Leg::down);
    forward_and_back_up();
  }
  for (int i = 0; i < rank; ++i) {
    list.add(kInput, Leg::down);
    list.add(kInput, Leg::up);
  }
  for (int i = 0; i < p - rank; ++i) {
    list.add(kInput, Leg::down);
    list.add(kWeight, Leg::down);
  }
  for (const Leg leg : {Leg::up, Leg::down}) {
    while (list.count(kWeight, leg) < count) list.add(kWeight, leg);
  }
  return list.take(size.microbatches);
}

// The eight phases of DualPipe (github.com/deepseek-ai/DualPipe) with its second half of the ranks
// folded onto the first.
std::vector<Action> dual_pipe_v_rank(const PipelineSize& size, int rank) {
  const int ahead = size.ranks - rank - 1;  // ranks
  VList list(size, rank);
  const auto forward = [&](Leg leg) { list.add(kForward, leg); };
  bool is_split = false;
  const auto backward = [&](Leg leg) {
    is_split ? list.add_input(leg) : list.add(ActionKind::backward, leg);
  };
  for (int i = 0; i < 2 * ahead; ++i) forward(Leg::down);
  for (int i = 0; i <= rank; ++i) {
    forward(Leg::down);
    forward(Leg::up);
  }
  for (int i = 0; i < ahead; ++i) {
    list.add_input(Leg::up);
    list.add_deferred_weight();
    forward(Leg::up);
  }
  for (int i = 0; i < size.microbatches - 2 * size.ranks + rank + 1; ++i) {
    forward(Leg::down);
    backward(Leg::up);
    forward(Leg::up);
    backward(Leg::down);
  }
  for (int i = 0; i < ahead; ++i) {
    backward(Leg::up);
    forward(Leg::up);
    backward(Leg::down);
  }
  const int middle = (rank + 1) / 2;  // from which on backwards are in halves
  for (int i = 0; i <= rank; ++i) {
    if (i == middle && rank % 2 == 1) is_split = true;
    backward(Leg::up);
    if (i == middle) is_split = true;
    backward(Leg::down);
  }
  for (int i = 0; i < ahead; ++i) {
    list.add_deferred_weight();
    backward(Leg::down);
  }
  for (int i = 0; i <= rank; ++i) list.add_deferred_weight();
  return list.take(size.microbatches);
}

}  // namespace

ActionLists zbv_zero_bubble(const PipelineSize& size) {
  check_two_stages("ZBV", size);
  ActionLists lists;
  for (int rank = 0; rank < size.ranks; ++rank) lists.push_back(zbv_rank(size, rank));
  return lists;
}

ActionLists dual_pipe_v(const PipelineSize& size) {
  check_two_stages("DualPipeV", size);
  if (size.microbatches < size.stages) {
    throw CollectiveError("KB-C024",
                          "DualPipeV requires at least as many microbatches as stages, but got {} "
                          "microbatches and {} stages.",
                          size.microbatches, size.stages);
  }
  ActionLists lists;
  for (int rank = 0; rank < size.ranks; ++rank) lists.push_back(dual_pipe_v_rank(size, rank));
  return lists;
}

}  // namespace kernbench::distributed::pipelining
