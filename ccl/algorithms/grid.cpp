#include "ccl/algorithms/grid.h"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

namespace kernbench::ccl {

namespace {

// Chunks of a block that travel in one order of dimensions.
struct GridChannel {
  bool rows_first = true;  // rows carry several chunks at a time, columns one
  bool ties_ahead = true;  // whoever is as far either way is reached ahead
  int begin = 0;
  int end = 1;

  int size() const { return end - begin; }
};

// The share of the data that the busiest links of a dimension carry in a pass there and back, times
// `scale`: (s - 1)/s of a ring of s in both directions, all of a line.  There alone a line's end
// takes what all others have over one link, a ring's half of it over either: twice (s - 1)/s.
std::int64_t load(const Row& row, std::int64_t scale, bool sums) {
  if (row.size() == 1) return 0;
  const std::int64_t others = scale / row.size() * (row.size() - 1);
  if (row.wraps()) return others;
  return sums ? scale : 2 * others;
}

// The same two shares where links along columns take longer than those along rows, or less long, in
// eighths: finer ones would make messages small.
std::pair<std::int64_t, std::int64_t> shares_of_unlike(const GroupShape& shape, double of_row,
                                                       double of_column) {
  constexpr int kParts = 8;
  of_column *= shape.column_slowness;
  const double by_rows = std::max(of_column - of_row / shape.columns.front().size(), 0.0);
  const double by_columns = std::max(of_row - of_column / shape.rows.front().size(), 0.0);
  const auto rows = static_cast<std::int64_t>(kParts * by_rows / (by_rows + by_columns) + 0.5);
  return {rows, kParts - rows};
}

std::vector<GridChannel> split_into_channels(const GroupShape& shape, bool sums) {
  const Row& row = shape.rows.front();
  const Row& column = shape.columns.front();
  const std::int64_t both = std::int64_t{row.size()} * column.size();
  // f: the share with rows first.  Rows carry f X + (1 - f) X/h, columns f Y/w + (1 - f) Y.
  const std::int64_t of_row = load(row, both, sums);
  const std::int64_t of_column = load(column, both, sums);
  std::int64_t by_rows = of_column - of_row / column.size();
  std::int64_t by_columns = of_row - of_column / row.size();
  if (shape.column_slowness != 1) {
    std::tie(by_rows, by_columns) = shares_of_unlike(shape, static_cast<double>(of_row),
                                                     static_cast<double>(of_column));
  }
  if (row.size() == 1 || column.size() == 1) {
    by_rows = column.size() == 1 ? 1 : 0;
    by_columns = 1 - by_rows;
  }
  const std::int64_t common = std::gcd(by_rows, by_columns);
  const auto has_ties = [](const Row& one) { return one.wraps() && one.size() % 2 == 0; };
  const bool in_halves = has_ties(row) || has_ties(column);
  std::vector<GridChannel> channels;
  int begin = 0;
  for (const auto& [share, rows_first] : {std::pair{by_rows, true}, {by_columns, false}}) {
    const int chunks = static_cast<int>(share / common);
    for (const bool ahead : {true, false}) {
      if (chunks == 0 || (!ahead && !in_halves)) continue;
      channels.push_back({rows_first, ahead, begin, begin + chunks});
      begin += chunks;
    }
  }
  return channels;
}

bool are_equal(const std::vector<GridChannel>& channels) {
  return std::ranges::all_of(
      channels, [&](const GridChannel& one) { return one.size() == channels.front().size(); });
}

// One channel as one member sees it: its place in the dimension that comes first, and in the other.
class Passes {
 public:
  Passes(const PlanRequest& request, Plan& plan, const GridChannel& channel)
      : plan_(plan), channel_(channel) {
    const GroupShape& shape = request.shape;
    const Row& row = shape.rows[static_cast<std::size_t>(shape.row_of(request.self))];
    const Row& column = shape.columns[static_cast<std::size_t>(shape.column_of(request.self))];
    // A block travels along the dimension first that carries less.
    const bool rows_first = channel.rows_first == (request.kind == Plan::Kind::all_reduce);
    first_ = rows_first ? &row : &column;
    second_ = rows_first ? &column : &row;
    others_ = rows_first ? &shape.columns : &shape.rows;
    at_first_ = first_->position_of(request.self);
    at_second_ = second_->position_of(request.self);
  }

  // The chunks of the first dimension are added up and gathered whole; each member of it has some
  // of them, which are added up one by one along the second dimension in between.
  void all_reduce() {
    int time = first_->depth();
    int sum = kNobody;
    for (int target = 0; target < first_->size(); ++target) {
      if (second_->size() == 1) {
        const std::size_t before = plan_.moves.size();
        plan_.all_reduce(chunks_of_first(target), first_branch(target), first_branch(target), time);
        set_stage(before, 0, order_in_first(target));
        continue;
      }
      Move& move = plan_.reduce(chunks_of_first(target), first_branch(target), time);
      set_stage(plan_.moves.size() - 1, 0, order_in_first(target));
      if (target != at_first_) continue;
      move.is_complete = move.stores = false;
      sum = static_cast<int>(plan_.moves.size()) - 1;
    }
    if (second_->size() == 1) return;
    const std::vector<int> sums = reduce_along_second(sum, time + second_->depth());
    time += 2 * second_->depth();
    for (int target = 0; target < first_->size(); ++target) {
      Move& move = plan_.broadcast(chunks_of_first(target), first_branch(target), time);
      set_stage(plan_.moves.size() - 1, 2, order_in_first(target));
      if (target != at_first_) continue;
      move.has_source = false;
      move.held = sums;
    }
  }

  // Blocks travel along the first dimension, and from each member of it along the second.
  void move_blocks() {
    for (int i = 0; i < first_->size(); ++i) {
      for (int k = 0; k < second_->size(); ++k) {
        const Row& line = (*others_)[static_cast<std::size_t>(i)];
        const int target = line.at(k);
        const std::size_t before = plan_.moves.size();
        plan_.along(target, {channel_.begin, channel_.end}, joined_branch(i, k),
                    joined_branch(i, k), first_->depth() + second_->depth());
        set_stage(before, 0, 2 * first_->size() * order_in_second(k) + order_in_first(i));
      }
    }
  }

 private:
  // The chunks of a target in the first dimension, and in the second those of this member's.
  ChunkRange chunks_of_first(int target) const {
    const int whole = channel_.size() * second_->size();
    const int begin = channel_.begin * first_->size() * second_->size() + target * whole;
    return {begin, begin + whole};
  }
  ChunkRange chunks_of_second(int target) const {
    const int begin = chunks_of_first(at_first_).begin + target * channel_.size();
    return {begin, begin + channel_.size()};
  }

  Branch first_branch(int target) const {
    return first_->branch(at_first_, target, first_->nearest_ahead(target, channel_.ties_ahead));
  }
  Branch second_branch(int target) const {
    return second_->branch(at_second_, target, second_->nearest_ahead(target, channel_.ties_ahead));
  }

  // Moves of a channel, at one time in one pass, have the order of their targets as the member sees
  // them, which is the same on all members that stand alike, and on both ends of a link.
  int order_in_first(int target) const { return order(*first_, at_first_, target); }
  int order_in_second(int target) const { return order(*second_, at_second_, target); }
  int order(const Row& row, int position, int target) const {
    const int ahead = row.nearest_ahead(target, channel_.ties_ahead);
    return row.size() + row.offset(position, target, ahead);
  }
  void set_stage(std::size_t first_move, int pass, int order) {
    const int orders = 4 * (first_->size() + 1) * (second_->size() + 1);  // more than there are
    const int stage = (pass * plan_.chunk_count + channel_.begin) * orders + order;
    for (std::size_t i = first_move; i < plan_.moves.size(); ++i) plan_.moves[i].stage = stage;
  }

  // The branch of a member in the tree to the member at (i, k), which leads along the second
  // dimension to the line of the target and then along the first.
  Branch joined_branch(int i, int k) const {
    Branch branch = second_branch(k);
    if (at_second_ != k) {
      branch.distance += distance_in_first(i);
      return branch;
    }
    Branch along = first_branch(i);
    along.outer.insert(along.outer.end(), branch.outer.begin(), branch.outer.end());
    return along;
  }
  int distance_in_first(int target) const { return first_branch(target).distance; }

  std::vector<int> reduce_along_second(int sum, int time) {
    std::vector<int> sums;
    for (int target = 0; target < second_->size(); ++target) {
      const std::size_t before = plan_.moves.size();
      const Branch branch = second_branch(target);
      const int result = plan_.all_reduce(chunks_of_second(target), branch, branch, time);
      set_stage(before, 1, order_in_second(target));
      plan_.moves[before].has_source = false;
      plan_.moves[before].held = {sum};
      plan_.moves[static_cast<std::size_t>(result)].stores = false;
      sums.push_back(result);
    }
    return sums;
  }

  Plan& plan_;
  const GridChannel& channel_;
  const Row* first_;
  const Row* second_;
  const std::vector<Row>* others_;  // lines of the second dimension
  int at_first_ = 0;
  int at_second_ = 0;
};

}  // namespace

void plan_grid(const PlanRequest& request, Plan& plan) {
  const GroupShape& shape = request.shape;
  const bool sums = request.kind == Plan::Kind::all_reduce;
  const std::vector<GridChannel> channels = split_into_channels(shape, sums);
  plan.chunk_count = channels.back().end * (sums ? shape.size : 1);
  plan.length = (shape.rows.front().depth() + shape.columns.front().depth()) * (sums ? 2 : 1) + 1;
  plan.width = 4 * static_cast<int>(channels.size());
  if (are_equal(channels)) plan.channels = static_cast<int>(channels.size());
  for (const GridChannel& channel : channels) {
    Passes passes(request, plan, channel);
    sums ? passes.all_reduce() : passes.move_blocks();
  }
}

void plan_mesh(const PlanRequest& request, Plan& plan) {
  GroupShape lines = request.shape;
  for (auto* dimension : {&lines.rows, &lines.columns}) {
    for (Row& row : *dimension) row = row.as_line();
  }
  plan_grid({lines, request.kind, request.root, request.self}, plan);
}

}  // namespace kernbench::ccl
