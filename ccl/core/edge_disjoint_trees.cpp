#include "ccl/core/edge_disjoint_trees.h"

#include <algorithm>
#include <cstddef>
#include <set>
#include <utility>

namespace kernbench::ccl {

namespace {

std::size_t as_index(int number) {
  return static_cast<std::size_t>(number);
}

// Returns all links of a grid's lines, in both directions.
std::set<std::pair<int, int>> list_links(const std::vector<Row>& rows,
                                         const std::vector<Row>& columns) {
  std::set<std::pair<int, int>> links;
  for (const auto* lines : {&rows, &columns}) {
    for (const Row& line : *lines) {
      for (int i = 0; i + 1 < line.size() || (line.wraps() && i < line.size()); ++i) {
        links.emplace(line.at(i), line.at(i + 1));
        links.emplace(line.at(i + 1), line.at(i));
      }
    }
  }
  return links;
}

}  // namespace

EdgeDisjointTrees::EdgeDisjointTrees(int size, const std::vector<Row>& rows,
                                     const std::vector<Row>& columns)
    : size_(size), tree_count_(size) {
  std::map<std::pair<int, int>, int> numbers;
  for (const auto& link : list_links(rows, columns)) {
    numbers.emplace(link, static_cast<int>(arcs_.size()));
    arcs_.push_back({.from = link.first, .to = link.second});
  }
  for (Arc& arc : arcs_) arc.twin = numbers.at({arc.to, arc.from});
  for (int member = 0; member <= size; ++member) {
    const auto first = std::ranges::lower_bound(arcs_, member, {}, &Arc::from);
    first_arcs_.push_back(static_cast<int>(first - arcs_.begin()));
    if (member == 0) continue;
    tree_count_ = std::min(tree_count_, first_arcs_.back() - first_arcs_[as_index(member - 1)]);
  }
}

const EdgeDisjointTrees::Trees& EdgeDisjointTrees::of_root(int root) const {
  const auto [found, is_new] = trees_.try_emplace(root);
  Trees& trees = found->second;
  if (!is_new) return trees;
  Capacities left(arcs_.size(), 1);
  for (int tree = 0; tree < tree_count_; ++tree) {
    trees.inner.push_back(take_tree(left, root, tree_count_ - 1 - tree));
    for (int member = 0; member < size_; ++member) {
      trees.longest = std::max(trees.longest, branch_of(trees.inner.back(), member).distance);
    }
  }
  return trees;
}

// From the nearest on, every member joins by a link without which the trees that are still to come
// can reach all.  They could before, so a set of members that too few links enter now is entered by
// this one: its end stands for all of them.
std::vector<int> EdgeDisjointTrees::take_tree(Capacities& left, int root, int to_come) const {
  std::vector<int> inner(as_index(size_), kNobody);
  std::vector<int> members = {root};
  for (std::size_t i = 0; i < members.size(); ++i) {
    for (int arc = first_arcs_[as_index(members[i])]; arc < first_arcs_[as_index(members[i] + 1)];
         ++arc) {
      const int to = arcs_[as_index(arc)].to;
      const bool is_in = to == root || inner[as_index(to)] != kNobody;
      if (is_in || left[as_index(arc)] == 0) continue;
      --left[as_index(arc)];
      if (reaches(left, root, to, to_come)) {
        inner[as_index(to)] = members[i];
        members.push_back(to);
      } else {
        ++left[as_index(arc)];
      }
    }
  }
  return inner;
}

// Returns true if `count` ways from the root to the member share no link: a maximum flow, as far as
// it is asked for, in which each way that is found turns its links round.
bool EdgeDisjointTrees::reaches(Capacities left, int root, int member, int count) const {
  for (int found = 0; found < count; ++found) {
    const std::vector<int> arriving = find_way(left, root, member);
    if (arriving[as_index(member)] == kNobody) return false;
    for (int at = member; at != root;) {
      const int arc = arriving[as_index(at)];
      --left[as_index(arc)];
      ++left[as_index(arcs_[as_index(arc)].twin)];
      at = arcs_[as_index(arc)].from;
    }
  }
  return true;
}

// Returns the arcs of a shortest way by what is left, each by the member at which it ends.
std::vector<int> EdgeDisjointTrees::find_way(const Capacities& left, int root, int member) const {
  std::vector<int> arriving(as_index(size_), kNobody);
  std::vector<int> queue = {root};
  for (std::size_t i = 0; i < queue.size(); ++i) {
    for (int arc = first_arcs_[as_index(queue[i])]; arc < first_arcs_[as_index(queue[i] + 1)];
         ++arc) {
      const int to = arcs_[as_index(arc)].to;
      if (to == root || arriving[as_index(to)] != kNobody || left[as_index(arc)] == 0) continue;
      arriving[as_index(to)] = arc;
      if (to == member) return arriving;
      queue.push_back(to);
    }
  }
  return arriving;
}

}  // namespace kernbench::ccl
