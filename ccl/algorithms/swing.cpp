#include "ccl/algorithms/swing.h"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

namespace kernbench::ccl {

namespace {

using Position = std::array<int, 2>;  // in a row, and in a column

// Members that exchange all they have add up alike in at most so many steps along a dimension:
// after two, members have the sums of groups that overlap, and add them in different orders.
constexpr int kWholeSteps = 2;

// A step along one dimension.
struct Exchange {
  std::size_t dimension = 0;
  int number = 0;  // of the step along its dimension
  int offset = 1;  // from even positions it leads ahead, from odd ones back; 0: it doubles

  // The place of the partner in a row of so many.
  int partner(int place, int side) const {
    if (offset == 0) return place ^ (1 << number);
    return (place + (place % 2 == 0 ? offset : -offset) + side) % side;
  }
};

// Returns 1, -1, 3, -5, 11, ...: (1 - (-2)^(step + 1)) / 3.
int compute_offset(int step) {
  const int power = 2 << step;
  return (1 + (step % 2 == 0 ? power : -power)) / 3;
}

Position sides_of(const GroupShape& shape) {
  return {shape.rows.front().size(), shape.columns.front().size()};
}

int steps_along(int side) {
  return std::countr_zero(static_cast<unsigned>(side));
}

// Dimensions take turns as long as both have steps left.
std::vector<Exchange> exchanges(const Position& sides, std::size_t first, bool ahead) {
  std::vector<Exchange> steps;
  for (int step = 0; step < std::max(steps_along(sides[0]), steps_along(sides[1])); ++step) {
    for (const std::size_t dimension : {first, 1 - first}) {
      if (step >= steps_along(sides.at(dimension))) continue;
      const int offset = compute_offset(step);
      steps.push_back({dimension, step, ahead ? offset : -offset});
    }
  }
  return steps;
}

// The chunks of a channel, which take their steps in one order, as one member sees them.
class ChannelOfPairs {
 public:
  // `count` chunks of the block from `begin` on.
  ChannelOfPairs(const PlanRequest& request, Plan& plan, std::vector<Exchange> steps, int begin,
                 int count)
      : shape_(request.shape),
        plan_(plan),
        steps_(std::move(steps)),
        sides_(sides_of(shape_)),
        self_({shape_.column_of(request.self), shape_.row_of(request.self)}),
        chunks_{begin, begin + count} {}

  void all_reduce(std::size_t halved) {
    std::vector<ChunkRange> given_away;
    if (steps_.empty()) add(chunks_);
    for (std::size_t step = 0; step < steps_.size(); ++step) {
      ChunkRange sent = chunks_;
      if (step < halved) {
        const int middle = (chunks_.begin + chunks_.end) / 2;
        const bool is_upper = keeps_upper(step);
        sent = is_upper ? ChunkRange{chunks_.begin, middle} : ChunkRange{middle, chunks_.end};
        chunks_ = is_upper ? ChunkRange{middle, chunks_.end} : ChunkRange{chunks_.begin, middle};
        given_away.push_back(sent);
      }
      send(sent, step);
      receive(chunks_, step, true);
    }
    plan_.moves.back().is_complete = plan_.moves.back().stores = true;
    while (!given_away.empty()) {
      const std::size_t step = given_away.size() - 1;
      send(chunks_, step);
      receive(given_away.back(), step, false);
      chunks_ = {std::min(chunks_.begin, given_away.back().begin),
                 std::max(chunks_.end, given_away.back().end)};
      given_away.pop_back();
    }
  }

 private:
  Position partner(Position at, std::size_t step) const {
    const std::size_t dimension = steps_[step].dimension;
    at.at(dimension) = steps_[step].partner(at.at(dimension), sides_.at(dimension));
    return at;
  }
  int member(std::size_t step) const {
    const Position at = partner(self_, step);
    return shape_.rows[static_cast<std::size_t>(at[1])].at(at[0]);
  }

  // The first place along a dimension that can be reached from one by this step and later ones.
  int first_reached(int place, std::size_t dimension, std::size_t step) const {
    if (step == steps_.size()) return place;
    const int first = first_reached(place, dimension, step + 1);
    if (steps_[step].dimension != dimension) return first;
    const int other = steps_[step].partner(place, sides_.at(dimension));
    return std::min(first, first_reached(other, dimension, step + 1));
  }
  // The first of all members that can be reached: of those in any reached row and column.
  int first_reached(const Position& from, std::size_t step) const {
    return first_reached(from[1], 1, step) * sides_[0] + first_reached(from[0], 0, step);
  }
  // Later steps reach one half of the members from either partner of a step, and each half of the
  // members keeps one half of the data.
  bool keeps_upper(std::size_t step) const {
    return first_reached(self_, step + 1) > first_reached(partner(self_, step), step + 1);
  }

  int last() const { return static_cast<int>(plan_.moves.size()) - 1; }
  Move& add(const ChunkRange& chunks) {
    Move& move = plan_.moves.emplace_back();
    move.time = time_;
    move.chunks = chunks;
    move.has_source = held_.empty();
    move.held = held_;
    return move;
  }

  // Sends what it has of the chunks.
  void send(const ChunkRange& chunks, std::size_t step) {
    const int to = member(step);
    if (!held_.empty() && plan_.moves.back().chunks == chunks) {
      plan_.moves.back().to = {to};  // which it has just received
      return;
    }
    Move& move = add(chunks);
    move.stage = 1;
    move.to = {to};
    if (chunks == chunks_) held_ = {last()};
  }

  void receive(const ChunkRange& chunks, std::size_t step, bool adds) {
    ++time_;
    Move& move = add(chunks);
    move.from = {member(step)};
    if (adds) {
      held_.clear();
    } else {
      move.held.clear();
      move.stores = true;
    }
    held_.push_back(last());
    std::ranges::sort(held_, {}, [&](int held) {
      return plan_.moves[static_cast<std::size_t>(held)].chunks.begin;
    });
  }

  const GroupShape& shape_;
  Plan& plan_;
  const std::vector<Exchange> steps_;
  const Position sides_;
  const Position self_;
  ChunkRange chunks_;  // that it has to do with
  int time_ = 0;
  std::vector<int>
      held_;  // the moves that have its values, in the order of chunks; none: the input
};

// The first `halving` steps along each dimension halve the data.
void plan_swing_pairs(const PlanRequest& request, Plan& plan, int halving) {
  const Position sides = sides_of(request.shape);
  const bool is_grid = sides[0] > 1 && sides[1] > 1;
  const auto steps = exchanges(sides, 0, true);
  const auto halved = static_cast<std::size_t>(
      std::ranges::count_if(steps, [&](const Exchange& step) { return step.number < halving; }));
  const int chunks = 1 << halved;
  plan.channels = is_grid ? 4 : 2;
  plan.chunk_count = plan.channels * chunks;
  plan.length = static_cast<int>(steps.size() + halved) + 1;
  plan.width = plan.channels;
  plan.halves = halved > 0;
  plan.slices_at_once = 1;  // each has a move at every time
  plan.slice_interval = plan.length;
  for (int channel = 0; channel < plan.channels; ++channel) {
    const std::size_t first = is_grid && channel % 2 == 1 ? 1 : 0;
    const bool ahead = 2 * channel < plan.channels;
    ChannelOfPairs(request, plan, exchanges(sides, first, ahead), channel * chunks, chunks)
        .all_reduce(halved);
  }
}

}  // namespace

void plan_swing_whole(const PlanRequest& request, Plan& plan) {
  plan_swing_pairs(request, plan, 0);
}

void plan_swing(const PlanRequest& request, Plan& plan) {
  const Position sides = sides_of(request.shape);
  const int most = steps_along(std::max(sides[0], sides[1]));
  plan_swing_pairs(request, plan, std::max(2, most - kWholeSteps));
}

void plan_doubling(const PlanRequest& request, Plan& plan) {
  const Position sides = sides_of(request.shape);
  std::vector<Exchange> steps;
  for (const std::size_t dimension : {0, 1}) {
    for (int step = 0; step < steps_along(sides.at(dimension)); ++step) {
      steps.push_back({dimension, step, 0});
    }
  }
  plan.length = static_cast<int>(steps.size()) + 1;
  plan.slices_at_once = 1;  // each has a move at every time
  plan.slice_interval = plan.length;
  ChannelOfPairs(request, plan, std::move(steps), 0, 1).all_reduce(0);
}

std::string_view misfit_of_swing_whole(const GroupShape& shape) {
  const std::string_view misfit = misfit_of_swing(shape);
  const Position sides = sides_of(shape);
  const bool is_short = steps_along(std::max(sides[0], sides[1])) <= kWholeSteps;
  if (!misfit.empty() || is_short) return misfit;
  return "of more than 4 in a row, ranks would have different bits";
}

std::string_view misfit_of_swing(const GroupShape& shape) {
  const Position sides = sides_of(shape);
  const auto is_power = [](int side) { return std::has_single_bit(static_cast<unsigned>(side)); };
  return is_power(sides[0]) && is_power(sides[1]) ? "" : "its rows and columns need powers of two";
}

}  // namespace kernbench::ccl
