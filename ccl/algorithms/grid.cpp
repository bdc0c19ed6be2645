#include "ccl/algorithms/grid.h"

#include <algorithm>
#include <numeric>

namespace kernbench::ccl {

namespace {

// Units of a block that travel in one order of dimensions.
struct Colour {
  bool rows_first = true;  // rows carry whole chunks, columns parts of them
  bool ties_ahead = true;  // whoever is as far either way is reached ahead
  int begin = 0;
  int end = 1;

  int units() const { return end - begin; }
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

std::vector<Colour> split_into_colours(const GroupShape& shape, bool sums) {
  const Row& row = shape.rows.front();
  const Row& column = shape.columns.front();
  const std::int64_t both = std::int64_t{row.size()} * column.size();
  // f: the share with rows first.  Rows carry f X + (1 - f) X/h, columns f Y/w + (1 - f) Y.
  const std::int64_t of_row = load(row, both, sums);
  const std::int64_t of_column = load(column, both, sums);
  std::int64_t by_rows = of_column - of_row / column.size();
  std::int64_t by_columns = of_row - of_column / row.size();
  if (row.size() == 1 || column.size() == 1) {
    by_rows = column.size() == 1 ? 1 : 0;
    by_columns = 1 - by_rows;
  }
  const std::int64_t common = std::gcd(by_rows, by_columns);
  const auto has_ties = [](const Row& one) { return one.wraps() && one.size() % 2 == 0; };
  const bool in_halves = has_ties(row) || has_ties(column);
  std::vector<Colour> colours;
  int begin = 0;
  for (const auto& [share, rows_first] : {std::pair{by_rows, true}, {by_columns, false}}) {
    const int units = static_cast<int>(share / common);
    for (const bool ahead : {true, false}) {
      if (units == 0 || (!ahead && !in_halves)) continue;
      colours.push_back({rows_first, ahead, begin, begin + units});
      begin += units;
    }
  }
  return colours;
}

bool are_equal(const std::vector<Colour>& colours) {
  return std::ranges::all_of(
      colours, [&](const Colour& one) { return one.units() == colours.front().units(); });
}

// One colour as one member sees it: its place in the dimension that comes first, and in the other.
class Passes {
 public:
  Passes(const PlanRequest& request, Plan& plan, const Colour& colour)
      : plan_(plan), colour_(colour) {
    const GroupShape& shape = request.shape;
    const Row& row = shape.rows[static_cast<std::size_t>(shape.row_of(request.self))];
    const Row& column = shape.columns[static_cast<std::size_t>(shape.column_of(request.self))];
    // A block travels along the dimension first that carries less.
    const bool rows_first = colour.rows_first == (request.kind == Plan::Kind::all_reduce);
    first_ = rows_first ? &row : &column;
    second_ = rows_first ? &column : &row;
    others_ = rows_first ? &shape.columns : &shape.rows;
    at_first_ = first_->position_of(request.self);
    at_second_ = second_->position_of(request.self);
  }

  // Chunks of the first dimension are added up and gathered whole; each member of it has one of
  // them, whose parts are added up along the second dimension in between.
  void all_reduce() {
    int time = first_->depth();
    int sum = kNobody;
    for (int target = 0; target < first_->size(); ++target) {
      const bool is_own = target == at_first_;
      if (second_->size() == 1) {
        plan_.all_reduce(chunk(target), first_branch(target), first_branch(target), time);
        continue;
      }
      Move& move = plan_.reduce(chunk(target), first_branch(target), time);
      if (!is_own) continue;
      move.is_complete = move.stores = false;
      sum = static_cast<int>(plan_.moves.size()) - 1;
    }
    if (second_->size() == 1) return;
    const std::vector<int> sums = reduce_parts(sum, time + second_->depth());
    time += 2 * second_->depth();
    for (int target = 0; target < first_->size(); ++target) {
      Move& move = plan_.broadcast(chunk(target), first_branch(target), time);
      move.stage = 2;
      if (target != at_first_) continue;
      move.has_source = false;
      move.parts = sums;
    }
  }

  // Blocks travel along the first dimension, and from each member of it along the second.
  void move_blocks() {
    for (int i = 0; i < first_->size(); ++i) {
      for (int k = 0; k < second_->size(); ++k) {
        const Row& line = (*others_)[static_cast<std::size_t>(i)];
        const int target = line.at(k);
        plan_.along(target, {colour_.begin, colour_.end}, joined_branch(i, k), joined_branch(i, k),
                    first_->depth() + second_->depth());
      }
    }
  }

 private:
  // A chunk of the first dimension, or a part of this member's.
  Chunk chunk(int target) const {
    const int whole = colour_.units() * second_->size();
    const int begin = colour_.begin * first_->size() * second_->size() + target * whole;
    return {begin, begin + whole};
  }
  Chunk part(int target) const {
    const int begin = chunk(at_first_).begin + target * colour_.units();
    return {begin, begin + colour_.units()};
  }

  Branch first_branch(int target) const {
    return first_->branch(at_first_, target, first_->nearest_ahead(target, colour_.ties_ahead));
  }
  Branch second_branch(int target) const {
    return second_->branch(at_second_, target, second_->nearest_ahead(target, colour_.ties_ahead));
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

  std::vector<int> reduce_parts(int sum, int time) {
    std::vector<int> sums;
    for (int target = 0; target < second_->size(); ++target) {
      const std::size_t before = plan_.moves.size();
      const Branch branch = second_branch(target);
      const int result = plan_.all_reduce(part(target), branch, branch, time);
      for (std::size_t i = before; i < plan_.moves.size(); ++i) plan_.moves[i].stage = 1;
      plan_.moves[before].has_source = false;
      plan_.moves[before].parts = {sum};
      plan_.moves[static_cast<std::size_t>(result)].stores = false;
      sums.push_back(result);
    }
    return sums;
  }

  Plan& plan_;
  const Colour& colour_;
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
  const std::vector<Colour> colours = split_into_colours(shape, sums);
  plan.units = colours.back().end * (sums ? shape.size : 1);
  plan.length = (shape.rows.front().depth() + shape.columns.front().depth()) * (sums ? 2 : 1) + 1;
  plan.width = 4 * static_cast<int>(colours.size());
  if (are_equal(colours)) plan.colours = static_cast<int>(colours.size());
  for (const Colour& colour : colours) {
    Passes passes(request, plan, colour);
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
