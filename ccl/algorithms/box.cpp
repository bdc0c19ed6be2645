#include "ccl/algorithms/box.h"

#include <algorithm>
#include <numeric>
#include <ranges>
#include <vector>

namespace kernbench::ccl {

namespace {

using Order = std::vector<int>;

// Finds the orders of dimensions in which equal shares of the data load the busiest links least.
// Rings of a box may have unlike sizes, and two members in a row have one link either way.
class OrderSearch {
 public:
  explicit OrderSearch(const MemberBox& box) {
    Order order(static_cast<std::size_t>(box.dimension_count()));
    std::iota(order.begin(), order.end(), 0);
    do {
      orders_.push_back(order);
      loads_.push_back(loads_of(box, order));
    } while (std::ranges::next_permutation(order).found);
  }

  std::vector<Order> run() {
    constexpr int kMost = 4;  // more shares are more messages
    for (int count = 1; count <= kMost; ++count) {
      add_shares(0, count, std::vector<double>(loads_.front().size(), 0));
    }
    std::vector<Order> found;
    for (const std::size_t one : best_) found.push_back(orders_[one]);
    return found;
  }

 private:
  // Returns what a link along each dimension carries.  Data come to the last dimension of the order
  // first, and from each member there to those along the others.
  static std::vector<double> loads_of(const MemberBox& box, const Order& order) {
    std::vector<double> loads(order.size());
    double members = 1;
    for (const int dimension : std::views::reverse(order)) {
      const MemberBox::Dimension& along = box.dimension(dimension);
      loads[static_cast<std::size_t>(dimension)] =
          along.slowness * members * (along.size() - 1) / (along.row.wraps() ? 2 : 1);
      members *= along.size();
    }
    return loads;
  }

  // Tries all orders from `first` on for the shares that are to come.
  void add_shares(std::size_t first, int to_come, const std::vector<double>& loads) {
    constexpr double kBetter = 0.97;  // one more share is more messages, so it must gain that much
    if (to_come == 0) {
      const double load = std::ranges::max(loads) / static_cast<double>(shares_.size());
      if (!best_.empty() && load >= (shares_.size() > best_.size() ? kBetter : 1) * least_) return;
      best_ = shares_;
      least_ = load;
      return;
    }
    for (std::size_t i = first; i < orders_.size(); ++i) {
      std::vector<double> sums = loads;
      for (std::size_t d = 0; d < sums.size(); ++d) sums[d] += loads_[i][d];
      shares_.push_back(i);
      add_shares(i, to_come - 1, sums);
      shares_.pop_back();
    }
  }

  std::vector<Order> orders_;
  std::vector<std::vector<double>> loads_;  // by order
  std::vector<std::size_t> shares_;
  std::vector<std::size_t> best_;
  double least_ = 0;
};

// Each dimension of a grid in nodes is first once.
std::vector<Order> list_orders_in_nodes(const MemberBox& box, int of_grid) {
  Order order(static_cast<std::size_t>(box.dimension_count()));
  std::iota(order.begin(), order.end(), 0);
  std::vector<Order> orders;
  for (int first = 0; first < std::max(of_grid, 1); ++first) {
    orders.push_back(order);
    std::rotate(order.begin(), order.begin() + std::min(of_grid, 1), order.begin() + of_grid);
  }
  return orders;
}

}  // namespace

std::vector<Passage> list_passages(const MemberBox& box) {
  int of_grid = 0;
  bool has_ties = false;
  for (int i = 0; i < box.dimension_count(); ++i) {
    const MemberBox::Dimension& dimension = box.dimension(i);
    if (dimension.joins_all) continue;
    ++of_grid;
    has_ties = has_ties || (dimension.row.wraps() && dimension.size() % 2 == 0);
  }
  const bool is_grid = of_grid == box.dimension_count();
  std::vector<Passage> passages;
  for (const Order& order : is_grid ? OrderSearch(box).run() : list_orders_in_nodes(box, of_grid)) {
    for (const bool ahead : {true, false}) {
      if (ahead || has_ties) passages.push_back({order, ahead});
    }
  }
  return passages;
}

namespace {

int depth_of(const MemberBox& box) {
  int depth = 0;
  for (int i = 0; i < box.dimension_count(); ++i) depth += box.dimension(i).depth();
  return depth;
}

// A member's place in the tree of a target.  Data go away from it along the dimensions in the
// reverse of their order, so that those of the outermost level, which takes longest, go first.
Branch branch_towards(const MemberBox& box, const Passage& passage, int self, int target) {
  Branch branch;
  for (const int dimension : passage.order) {
    const int to = box.place_of(target, dimension);
    const Branch along =
        box.dimension(dimension).branch(box.place_of(self, dimension), to, passage.ties_ahead);
    branch.distance += along.distance;
    if (branch.inner != kNobody) continue;
    std::vector<int> outer;
    for (const int place : along.outer) outer.push_back(box.with_place(self, dimension, place));
    branch.outer.insert(branch.outer.begin(), outer.begin(), outer.end());
    if (along.inner != kNobody) branch.inner = box.with_place(self, dimension, along.inner);
  }
  return branch;
}

// The order of a target's moves among those of one time.  Both ends of a link agree on it: on a
// ring targets are counted without a wrap between the two.
int order_of(const MemberBox& box, const Passage& passage, int self, int target) {
  int order = 0;
  int stride = 1;
  for (int i = 0; i < box.dimension_count(); ++i) {
    const MemberBox::Dimension& dimension = box.dimension(i);
    const int at = box.place_of(self, i);
    const int to = box.place_of(target, i);
    const int size = dimension.size();
    const int ahead = dimension.row.nearest_ahead(to, passage.ties_ahead);
    order += stride * (dimension.joins_all ? (to - at + size) % size
                                           : size + dimension.row.offset(at, to, ahead));
    stride *= dimension.joins_all ? size : 2 * size;
  }
  return order;
}

}  // namespace

void plan_box(const PlanRequest& request, Plan& plan) {
  const MemberBox& box = request.shape.box;
  const int size = request.shape.size;
  const bool sums = request.kind == Plan::Kind::all_reduce;
  const std::vector<Passage> passages = list_passages(box);
  const auto passage_count = static_cast<int>(passages.size());
  const int depth = depth_of(box);
  plan.chunk_count = passage_count * (sums ? size : 1);
  plan.channels = passage_count;
  plan.length = (sums ? 2 : 1) * depth + 1;
  plan.width = size * passage_count;
  plan.slices_at_once = 4;  // links of dimensions that come one after the other are busy together
  plan.slice_interval = 1;
  for (int i = 0; i < passage_count; ++i) {
    for (int target = 0; target < size; ++target) {
      const int chunk = sums ? i * size + target : i;
      const std::size_t before = plan.moves.size();
      const Passage& passage = passages[static_cast<std::size_t>(i)];
      const Branch branch = branch_towards(box, passage, request.self, target);
      Branch up = branch;
      std::ranges::reverse(up.outer);  // sums come from the nearest behind first, as it sends first
      plan.along(target, {chunk, chunk + 1}, up, branch, depth);
      const int stage = box.dimension(0).joins_all ? (target - request.self + size) % size
                                                   : order_of(box, passage, request.self, target);
      for (std::size_t k = before; k < plan.moves.size(); ++k) plan.moves[k].stage = stage;
    }
  }
}

}  // namespace kernbench::ccl
