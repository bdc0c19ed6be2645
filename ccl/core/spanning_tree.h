// Trees over participants: along a grid towards its centre or a corner, and the binomial tree.

#pragma once

#include <optional>
#include <vector>

#include "ccl/core/plan.h"
#include "sim_engine/topology/location.h"

namespace kernbench::ccl {

// A node's place in the tree, which leads along the node's row to the root's column, then along
// that column.  (A node of an unfinished last row that does not reach the column goes north
// first.)
struct GridTreeNode {
  std::optional<sim::Compass> parent;  // nullopt at the root
  std::vector<sim::Compass> children;  // in the order in which their values are added
};

// REQUIRES: count == grid.count() or the grid does not wrap around
GridTreeNode grid_tree_node(const sim::Grid& grid, int count, int node, Root root);

// Returns the number of steps from a node to the root.
int grid_tree_distance(const sim::Grid& grid, int count, int node, Root root);

// Returns the number of steps from the node that is farthest from the root.
int grid_tree_depth(const sim::Grid& grid, int count, Root root);

// The binomial tree over 0..count-1 with root 0: a node's parent is its number without the lowest
// set bit, and its children are added in the order of the rounds 0, 1, ... of a reduction.
struct BinomialTreeNode {
  std::optional<int> parent;
  std::vector<int> children;
};

BinomialTreeNode binomial_tree_node(int count, int node);

}  // namespace kernbench::ccl
