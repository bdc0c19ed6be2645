// Finds the nodes that a backward pass reaches.

#pragma once

#include <cstdint>
#include <unordered_set>
#include <vector>

#include "runtime/autograd/node.h"

namespace kernbench::autograd {

// A leaf, and the number of the last node in a backward pass that gives it a gradient: when the
// pass has got past that node, the leaf's gradient is complete.
struct ReachedLeaf {
  Tensor leaf;
  std::uint64_t last = 0;  // 0: the pass begins at the leaf
};

struct Reached {
  std::vector<Node*> nodes;
  // In the order in which a pass completes them; those of one node in the order of its inputs.
  std::vector<ReachedLeaf> leaves;
};

// Returns the nodes and leaves that gradients may flow to from these edges, which keep the nodes.
Reached reached_from(const std::vector<GradientEdge>& from, NodeList& list);

// Returns the nodes on the ways from some edges to others, the nodes of both included.
std::unordered_set<const Node*> nodes_between(const std::vector<GradientEdge>& from,
                                              const std::vector<GradientEdge>& to, NodeList& list);

// The same leaves, from tensors.  Undefined tensors, and those that need no gradient, reach none.
std::vector<Tensor> collect_leaves(const std::vector<Tensor>& tensors);

}  // namespace kernbench::autograd
