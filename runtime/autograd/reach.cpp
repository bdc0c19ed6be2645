#include "runtime/autograd/reach.h"

#include <algorithm>
#include <ranges>
#include <unordered_set>
#include <utility>

#include "runtime/tensor/tensor_storage.h"

namespace kernbench::autograd {

namespace {

// Returns the nodes that can be reached, in ascending order of their numbers.
std::vector<Node*> reached_nodes(const std::vector<GradientEdge>& from, std::uint64_t visit) {
  std::vector<Node*> nodes;
  const auto see = [&](const GradientEdge& edge) {
    Node* const node = edge.node.get();
    if (node == nullptr || node->visit == visit) return;
    node->visit = visit;
    nodes.push_back(node);
  };
  std::ranges::for_each(from, see);
  for (std::size_t i = 0; i < nodes.size(); ++i) std::ranges::for_each(nodes[i]->edges, see);
  std::ranges::sort(nodes, {}, &Node::number);
  return nodes;
}

}  // namespace

Reached reached_from(const std::vector<GradientEdge>& from, NodeList& list) {
  std::vector<ReachedLeaf> leaves;
  std::vector<Node*> nodes = reached_nodes(from, list.next_visit());
  std::unordered_set<const Tensor::Storage*> seen;
  const auto see = [&](const GradientEdge& edge, std::uint64_t number) {
    if (!edge.leaf.defined() || !seen.insert(edge.leaf.storage().get()).second) return;
    leaves.push_back({edge.leaf, number});
  };
  // Backwards, so that the first time that a leaf is seen is its last turn in a pass.
  for (const Node* node : nodes) {
    for (const GradientEdge& edge : node->edges | std::views::reverse) see(edge, node->number);
  }
  std::ranges::reverse(leaves);
  for (const GradientEdge& edge : from) see(edge, 0);
  return {std::move(nodes), std::move(leaves)};
}

std::unordered_set<const Node*> nodes_between(const std::vector<GradientEdge>& from,
                                              const std::vector<GradientEdge>& to, NodeList& list) {
  std::unordered_set<const Node*> between;
  std::unordered_set<const Tensor::Storage*> leaves;
  for (const GradientEdge& edge : to) {
    if (edge.node != nullptr) between.insert(edge.node.get());
    if (edge.leaf.defined()) leaves.insert(edge.leaf.storage().get());
  }
  // Sorts nodes in ascending order, in which a node comes after those that made its inputs.
  for (const Node* node : reached_nodes(from, list.next_visit())) {
    const bool leads_there = std::ranges::any_of(node->edges, [&](const GradientEdge& edge) {
      return between.contains(edge.node.get()) ||
             (edge.leaf.defined() && leaves.contains(edge.leaf.storage().get()));
    });
    if (leads_there) between.insert(node);
  }
  return between;
}

std::vector<Tensor> collect_leaves(const std::vector<Tensor>& tensors) {
  std::vector<GradientEdge> edges;
  runtime::Simulation* simulation = nullptr;
  for (const Tensor& tensor : tensors) {
    edges.push_back(edge_to(tensor));
    if (edges.back().wants_gradient()) simulation = tensor.storage()->simulation.get();
  }
  std::vector<Tensor> leaves;
  if (simulation == nullptr) return leaves;
  for (ReachedLeaf& reached : reached_from(edges, NodeList::of(*simulation)).leaves) {
    leaves.push_back(std::move(reached.leaf));
  }
  return leaves;
}

}  // namespace kernbench::autograd
