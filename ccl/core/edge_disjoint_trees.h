// Trees out of one member that share no link between neighbours.
//
// Source: Edmonds, "Edge-disjoint branchings" (1973); Lovasz, JCTB 21 (1976), whose proof is the
// construction.

#pragma once

#include <map>
#include <vector>

#include "ccl/core/plan.h"

namespace kernbench::ccl {

class EdgeDisjointTrees {
 public:
  // The members of the grid are neighbours along its rows and columns.
  EdgeDisjointTrees(int size, const std::vector<Row>& rows, const std::vector<Row>& columns);

  // Trees out of a root: as many as the member with the fewest neighbours has.
  struct Trees {
    std::vector<std::vector<int>> inner;  // by tree and member: the next member towards the root
    int longest = 0;                      // the largest distance of a branch
  };
  // Returns the trees of a root, which are found when they are first asked for.
  const Trees& of_root(int root) const;

 private:
  // One direction of a link.
  struct Arc {
    int from = 0;
    int to = 0;
    int twin = 0;  // the arc in the opposite direction
  };
  // Each arc can be taken once, and once more for each way that goes against it.
  using Capacities = std::vector<int>;

  std::vector<int> take_tree(Capacities& left, int root, int to_come) const;
  bool reaches(Capacities left, int root, int member, int count) const;
  std::vector<int> find_way(const Capacities& left, int root, int member) const;

  int size_;
  int tree_count_ = 0;
  std::vector<Arc> arcs_;        // by `from`, then by `to`
  std::vector<int> first_arcs_;  // by member, and one behind the last
  mutable std::map<int, Trees> trees_;
};

}  // namespace kernbench::ccl
