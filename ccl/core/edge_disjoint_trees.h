// Trees out of one member that share no link between neighbours.
//
// Source: Edmonds, "Edge-disjoint branchings" (1973); Lovasz, JCTB 21 (1976), whose proof is the
// construction.

#pragma once

#include <map>
#include <vector>

#include "ccl/core/flow_graph.h"
#include "ccl/core/plan.h"

namespace kernbench::ccl {

class EdgeDisjointTrees {
 public:
  // The members are neighbours along these lines.
  EdgeDisjointTrees(int size, const std::vector<Row>& lines);

  // Trees out of a root: as many as the member with the fewest neighbours has.
  struct Trees {
    std::vector<std::vector<int>> inner;  // by tree and member: the next member towards the root
    int longest = 0;                      // the largest distance of a branch
  };
  // Returns the trees of a root, which are found when they are first asked for.
  const Trees& of_root(int root) const;

 private:
  std::vector<int> take_tree(FlowGraph::Capacities& left, int root, int to_come) const;
  bool reaches(FlowGraph::Capacities left, int root, int member, int count) const;

  const FlowGraph graph_;
  int tree_count_;
  mutable std::map<int, Trees> trees_;
};

}  // namespace kernbench::ccl
