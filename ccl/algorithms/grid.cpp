#include "ccl/algorithms/grid.h"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

#include "ccl/algorithms/box.h"

namespace kernbench::ccl {

namespace {

// Chunks of a block that travel in one order of dimensions.
struct GridChannel {
  std::vector<int> order;  // the first dimension carries several chunks at a time, the last one
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
    std::tie(by_rows, by_columns) =
        shares_of_unlike(shape, static_cast<double>(of_row), static_cast<double>(of_column));
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
      const std::vector<int> order = rows_first ? std::vector{0, 1} : std::vector{1, 0};
      channels.push_back({order, ahead, begin, begin + chunks});
      begin += chunks;
    }
  }
  return channels;
}

std::vector<GridChannel> split_box(const MemberBox& box) {
  std::vector<GridChannel> channels;
  for (const Passage& passage : list_passages(box)) {
    const auto begin = static_cast<int>(channels.size());
    channels.push_back({passage.order, passage.ties_ahead, begin, begin + 1});
  }
  return channels;
}

bool are_equal(const std::vector<GridChannel>& channels) {
  return std::ranges::all_of(
      channels, [&](const GridChannel& one) { return one.size() == channels.front().size(); });
}

// The lines of a member: its row and its column, or those along all dimensions of a box.
std::vector<Row> lines_through(const GroupShape& shape, int member) {
  if (shape.is_box()) return shape.box.lines_through(member);
  return {shape.rows[static_cast<std::size_t>(shape.row_of(member))],
          shape.columns[static_cast<std::size_t>(shape.column_of(member))]};
}

// One channel as one member sees it: its lines along the dimensions, in the order in which it
// passes them.
class Passes {
 public:
  Passes(const PlanRequest& request, Plan& plan, const GridChannel& channel)
      : plan_(plan), channel_(channel), shape_(request.shape) {
    const std::vector<Row> lines = lines_through(shape_, request.self);
    for (const int dimension : channel.order) {
      lines_.push_back(lines[static_cast<std::size_t>(dimension)]);
    }
    // A block travels along the dimension first that carries less.
    const bool sums = request.kind == Plan::Kind::all_reduce;
    if (!sums) std::ranges::reverse(lines_);
    for (const Row& line : lines_) at_.push_back(line.position_of(request.self));
    shares_ = plan.chunk_count / (sums ? shape_.size : 1);
  }

  // The chunks of the first dimension are added up and gathered whole; each member of it has some
  // of them, which are added up along the further dimensions in between.
  void all_reduce() {
    int time = 0;
    all_reduce(0, channel_.begin * shape_.size, kNobody, time);
  }

  // Blocks travel along the first dimension, and from each member of it along the second.
  void move_blocks() {
    const bool are_rows_last = channel_.order.back() != 0;  // blocks pass the order in reverse
    const std::vector<Row>& others = are_rows_last ? shape_.rows : shape_.columns;
    const int width = lines_.front().size();
    for (int i = 0; i < width; ++i) {
      for (int k = 0; k < lines_.back().size(); ++k) {
        const int target = others[static_cast<std::size_t>(i)].at(k);
        const std::size_t before = plan_.moves.size();
        plan_.along(target, {channel_.begin, channel_.end}, joined_branch(i, k),
                    joined_branch(i, k), lines_.front().depth() + lines_.back().depth());
        set_stage(before, 0, 2 * width * order(1, k) + order(0, i));
      }
    }
  }

 private:
  // Adds up this member's chunks from `begin` on, along the dimensions from `level` on: its input,
  // or what the move `held` has of them.  Returns the moves that have the results.
  std::vector<int> all_reduce(std::size_t level, int begin, int held, int& time) {
    const bool is_last = level + 1 == lines_.size() || lines_[level + 1].size() == 1;
    const int depth = lines_[level].depth();
    int sum = kNobody;
    time += depth;
    std::vector<int> results;
    for (int target = 0; target < lines_[level].size(); ++target) {
      const std::size_t before = plan_.moves.size();
      const Branch branch = branch_along(level, target);
      const ChunkRange chunks = chunks_of(level, begin, target);
      if (is_last) {
        results.push_back(plan_.all_reduce(chunks, branch, branch, time));
      } else {
        plan_.reduce(chunks, branch, time);
      }
      set_stage(before, static_cast<int>(level), order(level, target));
      if (held != kNobody) take_held(before, {held});
      if (is_last || target != at_[level]) continue;
      sum = static_cast<int>(before);
      plan_.moves[before].is_complete = plan_.moves[before].stores = false;
    }
    if (!is_last) {
      const int own = chunks_of(level, begin, at_[level]).begin;
      const std::vector<int> sums = all_reduce(level + 1, own, sum, time);
      results = broadcast(level, begin, sums, time);
    }
    time += depth;
    if (held == kNobody) return results;
    for (const int result : results) plan_.moves[static_cast<std::size_t>(result)].stores = false;
    return results;
  }

  // Results of a level's chunks go back to all members of the line, which the moves `sums` have.
  std::vector<int> broadcast(std::size_t level, int begin, const std::vector<int>& sums, int time) {
    std::vector<int> results;
    const auto turn = static_cast<int>(2 * (lines_.size() - 1) - level);
    for (int target = 0; target < lines_[level].size(); ++target) {
      const std::size_t before = plan_.moves.size();
      plan_.broadcast(chunks_of(level, begin, target), branch_along(level, target), time);
      set_stage(before, turn, order(level, target));
      if (target == at_[level]) take_held(before, sums);
      results.push_back(static_cast<int>(before));
    }
    return results;
  }

  void take_held(std::size_t move, const std::vector<int>& held) {
    plan_.moves[move].has_source = false;
    plan_.moves[move].held = held;
  }

  // The chunks of a target on the line of a level, of those from `begin` on.
  ChunkRange chunks_of(std::size_t level, int begin, int target) const {
    int whole = channel_.size();
    for (std::size_t i = level + 1; i < lines_.size(); ++i) whole *= lines_[i].size();
    return {begin + target * whole, begin + (target + 1) * whole};
  }

  Branch branch_along(std::size_t level, int target) const {
    const Row& line = lines_[level];
    return line.branch(at_[level], target, line.nearest_ahead(target, channel_.ties_ahead));
  }

  // Moves of a channel, at one time in one pass, have the order of their targets as the member sees
  // them, which is the same on all members that stand alike, and on both ends of a link.
  int order(std::size_t level, int target) const {
    const Row& line = lines_[level];
    const int ahead = line.nearest_ahead(target, channel_.ties_ahead);
    return line.size() + line.offset(at_[level], target, ahead);
  }
  void set_stage(std::size_t first_move, int pass, int order) {
    int orders = 4;  // more than there are
    for (const Row& line : lines_) orders *= line.size() + 1;
    const int stage = (pass * shares_ + channel_.begin) * orders + order;
    for (std::size_t i = first_move; i < plan_.moves.size(); ++i) plan_.moves[i].stage = stage;
  }

  // The branch of a member in the tree to the member at (i, k), which leads along the second
  // dimension to the line of the target and then along the first.
  Branch joined_branch(int i, int k) const {
    Branch branch = branch_along(1, k);
    Branch along = branch_along(0, i);
    if (at_[1] != k) {
      branch.distance += along.distance;
      return branch;
    }
    along.outer.insert(along.outer.end(), branch.outer.begin(), branch.outer.end());
    return along;
  }

  Plan& plan_;
  const GridChannel& channel_;
  const GroupShape& shape_;
  std::vector<Row> lines_;
  std::vector<int> at_;  // this member's position on each
  int shares_ = 1;       // of a member's part of a block
};

}  // namespace

void plan_grid(const PlanRequest& request, Plan& plan) {
  const GroupShape& shape = request.shape;
  const bool sums = request.kind == Plan::Kind::all_reduce;
  if (shape.is_box() && !sums) return plan_box(request, plan);
  const std::vector<GridChannel> channels =
      shape.is_box() ? split_box(shape.box) : split_into_channels(shape, sums);
  plan.chunk_count = channels.back().end * (sums ? shape.size : 1);
  for (const Row& line : lines_through(shape, request.self))
    plan.length += line.depth() * (sums ? 2 : 1);
  plan.width = 4 * static_cast<int>(channels.size());
  if (are_equal(channels)) plan.channels = static_cast<int>(channels.size());
  for (const GridChannel& channel : channels) {
    Passes passes(request, plan, channel);
    sums ? passes.all_reduce() : passes.move_blocks();
  }
}

void plan_mesh(const PlanRequest& request, Plan& plan) {
  GroupShape lines = request.shape;
  lines.box = {};
  for (auto* dimension : {&lines.rows, &lines.columns}) {
    for (Row& row : *dimension) row = row.as_line();
  }
  plan_grid({lines, request.kind, request.root, request.self}, plan);
}

}  // namespace kernbench::ccl
