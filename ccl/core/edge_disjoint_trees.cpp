#include "ccl/core/edge_disjoint_trees.h"

#include <algorithm>
#include <set>
#include <utility>

namespace kernbench::ccl {

namespace {

// Returns the links of all lines, in both directions.
std::set<std::pair<int, int>> list_links(const std::vector<Row>& lines) {
  std::set<std::pair<int, int>> links;
  for (const Row& line : lines) {
    for (int i = 0; i + 1 < line.size() || (line.wraps() && i < line.size()); ++i) {
      links.emplace(line.at(i), line.at(i + 1));
      links.emplace(line.at(i + 1), line.at(i));
    }
  }
  return links;
}

}  // namespace

EdgeDisjointTrees::EdgeDisjointTrees(int size, const std::vector<Row>& lines)
    : graph_(size, list_links(lines)), tree_count_(size) {
  for (int member = 0; member < size; ++member) {
    tree_count_ = std::min(tree_count_, graph_.degree(member));
  }
}

const EdgeDisjointTrees::Trees& EdgeDisjointTrees::of_root(int root) const {
  const auto [found, is_new] = trees_.try_emplace(root);
  Trees& trees = found->second;
  if (!is_new) return trees;
  FlowGraph::Capacities left(as_index(graph_.arc_count()), 1);
  for (int tree = 0; tree < tree_count_; ++tree) {
    trees.inner.push_back(take_tree(left, root, tree_count_ - 1 - tree));
    for (int member = 0; member < graph_.size(); ++member) {
      trees.longest = std::max(trees.longest, branch_of(trees.inner.back(), member).distance);
    }
  }
  return trees;
}

// From the nearest on, every member joins by a link without which the trees that are still to come
// can reach all.  They could before, so a set of members that too few links enter now is entered by
// this one: its end stands for all of them.
std::vector<int> EdgeDisjointTrees::take_tree(FlowGraph::Capacities& left, int root,
                                              int to_come) const {
  std::vector<int> inner(as_index(graph_.size()), kNobody);
  std::vector<int> members = {root};
  for (std::size_t i = 0; i < members.size(); ++i) {
    for (int arc = graph_.first_arc(members[i]); arc < graph_.first_arc(members[i] + 1); ++arc) {
      const int to = graph_.arc(arc).to;
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
// it is asked for.
bool EdgeDisjointTrees::reaches(FlowGraph::Capacities left, int root, int member, int count) const {
  for (int found = 0; found < count; ++found) {
    if (!graph_.take_way(left, root, member)) return false;
  }
  return true;
}

}  // namespace kernbench::ccl
