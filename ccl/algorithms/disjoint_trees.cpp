#include "ccl/algorithms/disjoint_trees.h"

#include <algorithm>

#include "ccl/algorithms/chain.h"

namespace kernbench::ccl {

namespace {

// Larger groups would take long to plan.
constexpr int kMostMembersOfTrees = 64;

// Directed links between neighbours that no tree has taken yet.
class Links {
 public:
  explicit Links(const GroupShape& shape)
      : size_(shape.size),
        free_(static_cast<std::size_t>(size_ * size_), 0),
        neighbours_(static_cast<std::size_t>(size_)) {
    for (const auto* lines : {&shape.rows, &shape.columns}) {
      for (const Row& line : *lines) join(line);
    }
    for (int from = 0; from < size_; ++from) {
      for (int to = 0; to < size_; ++to) {
        if (has(from, to)) neighbours_[static_cast<std::size_t>(from)].push_back(to);
      }
    }
  }

  int size() const { return size_; }
  bool has(int from, int to) const { return free_[index(from, to)] > 0; }
  void add(int from, int to, int count) { free_[index(from, to)] += count; }
  // In ascending order.
  const std::vector<int>& neighbours(int member) const {
    return neighbours_[static_cast<std::size_t>(member)];
  }

  int least_degree() const {
    const auto least = std::ranges::min_element(neighbours_, {}, &std::vector<int>::size);
    return static_cast<int>(least->size());
  }

  // True if `count` ways from the root to the member share no link: a maximum flow, as far as it is
  // asked for, in which each way that is found turns its links round.
  bool reaches(int root, int member, int count) const {
    std::vector<int> rest = free_;
    for (int found = 0; found < count; ++found) {
      const std::vector<int> before = find_way(rest, root, member);
      if (before[static_cast<std::size_t>(member)] == kNobody) return false;
      for (int at = member; at != root;) {
        const int from = before[static_cast<std::size_t>(at)];
        --rest[index(from, at)];
        ++rest[index(at, from)];
        at = from;
      }
    }
    return true;
  }

 private:
  std::size_t index(int from, int to) const { return static_cast<std::size_t>(from * size_ + to); }

  void join(const Row& line) {
    for (int i = 0; i + 1 < line.size() || (line.wraps() && i < line.size()); ++i) {
      add(line.at(i), line.at(i + 1), 1);
      add(line.at(i + 1), line.at(i), 1);
    }
  }

  // The members of a shortest way by what is left of the links: by member, the one before it.
  std::vector<int> find_way(const std::vector<int>& rest, int root, int member) const {
    std::vector<int> before(static_cast<std::size_t>(size_), kNobody);
    std::vector<int> queue = {root};
    for (std::size_t i = 0; i < queue.size(); ++i) {
      for (const int to : neighbours(queue[i])) {
        if (to == root || before[static_cast<std::size_t>(to)] != kNobody) continue;
        if (rest[index(queue[i], to)] == 0) continue;
        before[static_cast<std::size_t>(to)] = queue[i];
        if (to == member) return before;
        queue.push_back(to);
      }
    }
    return before;
  }

  int size_;
  std::vector<int> free_;
  std::vector<std::vector<int>> neighbours_;  // by member
};

// The members towards the root, by member: from the nearest on, every member joins by a link
// without which the trees that are still to come can reach all.  They could before, so a set of
// members that too few links enter now is entered by this one: its end stands for all of them.
std::vector<int> take_tree(Links& links, int root, int to_come) {
  std::vector<int> inner(static_cast<std::size_t>(links.size()), kNobody);
  std::vector<int> members = {root};
  for (std::size_t i = 0; i < members.size(); ++i) {
    for (const int to : links.neighbours(members[i])) {
      const bool is_in = to == root || inner[static_cast<std::size_t>(to)] != kNobody;
      if (is_in || !links.has(members[i], to)) continue;
      links.add(members[i], to, -1);
      if (links.reaches(root, to, to_come)) {
        inner[static_cast<std::size_t>(to)] = members[i];
        members.push_back(to);
      } else {
        links.add(members[i], to, 1);
      }
    }
  }
  return inner;
}

}  // namespace

void plan_disjoint_trees(const PlanRequest& request, Plan& plan) {
  const GroupShape& shape = request.shape;
  if (shape.rows.size() == 1 || shape.columns.size() == 1 || shape.size > kMostMembersOfTrees) {
    return plan_half_chains(request, plan);
  }
  Links links(shape);
  const int count = links.least_degree();
  // A lane that has one tree alone never lets one tree wait for another.
  plan.chunk_count = plan.width = plan.channels = count;
  plan.slices_at_once = 1;
  plan.slice_interval = 1;
  std::vector<Branch> branches;
  for (int tree = 0; tree < count; ++tree) {
    const std::vector<int> inner = take_tree(links, request.root, count - 1 - tree);
    for (int member = 0; member < shape.size; ++member) {
      plan.length = std::max(plan.length, branch_of(inner, member).distance + 1);
    }
    branches.push_back(branch_of(inner, request.self));
  }
  for (int tree = 0; tree < count; ++tree) {
    const Branch& branch = branches[static_cast<std::size_t>(tree)];
    request.kind == Plan::Kind::reduce ? plan.reduce({tree, tree + 1}, branch, plan.length - 1)
                                       : plan.broadcast({tree, tree + 1}, branch, 0);
  }
}

}  // namespace kernbench::ccl
