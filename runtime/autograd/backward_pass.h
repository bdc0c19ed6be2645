// A backward pass through the graph of recorded operators.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "runtime/autograd/gradient_sum.h"
#include "runtime/autograd/leaf_gradients.h"
#include "runtime/autograd/node.h"
#include "runtime/autograd/reach.h"
#include "runtime/ops/fusion.h"

namespace kernbench::autograd {

// A node that has computed the gradients of some inputs in one pass, and waits for another one,
// which gives those of the others.
struct DeferredNode {
  std::shared_ptr<Node> node;
  std::vector<bool> left;          // by input: its gradient is to be given
  std::vector<Tensor> of_results;  // of a selective Backward, which will be called again
  std::vector<Tensor> of_inputs;   // else the gradients, which are computed
};

// Runs nodes in descending order of their numbers.  A node's number is larger than those of the
// nodes that made its inputs, so by its turn all nodes that use its result have run.  The order is
// that of the program, the same on every rank.
class BackwardPass {
 public:
  // A pass that gives all leaves their gradients.
  BackwardPass(runtime::Simulation& simulation, std::vector<ReachedLeaf> leaves, bool retain_graph)
      : simulation_(simulation), retain_graph_(retain_graph), leaves_(std::move(leaves)) {}
  // A pass that computes the gradients of these edges alone, and adds to no grad().
  BackwardPass(runtime::Simulation& simulation, const std::vector<GradientEdge>& wanted,
               const std::vector<GradientEdge>& from, bool retain_graph);

  // Keeps what the gradients that are not wanted will be computed from.
  void keep_deferred_in(std::vector<DeferredNode>& deferred) { deferred_ = &deferred; }
  void resume(DeferredNode deferred);

  // Returns the sum of the gradients that flow along an edge.
  GradientSum& at(const GradientEdge& edge);
  void run();
  // False for an edge that leads to no wanted one.
  bool is_needed(const GradientEdge& edge) const;
  // The gradients of the wanted edges; undefined where none has come.
  const std::vector<Tensor>& captured() const { return captured_; }

 private:
  struct Turn {
    std::shared_ptr<Node> node;
    GradientForm form;  // of its result
    GradientSum sum;
    std::vector<GradientSum> sums;  // in place of `sum`, of a node of several results
    std::optional<DeferredNode> resumed;

    Tensor take_gradient();
    std::vector<Tensor> take_gradients();
  };

  void take_turn(Turn& turn);
  void finish(DeferredNode& resumed);
  std::vector<Tensor> call(const Node& node, const std::vector<Tensor>& gradients,
                           const AskedInputs& asked) const;
  void give(const Node& node, std::size_t input, Tensor gradient);
  bool defer(const std::shared_ptr<Node>& node, const AskedInputs& asked,
             std::vector<Tensor> of_results, std::vector<Tensor> of_inputs);
  AskedInputs asked_inputs(const Node& node) const;
  void capture(const Node& node, const Tensor& gradient);
  void capture_leaves();
  bool leads_on(const Node& node) const;

  runtime::Simulation& simulation_;
  const bool retain_graph_;
  ops::Fusion fusion_{ops::Fusion::Joins::yes};  // of the operators of compiled calls
  std::map<std::uint64_t, Turn, std::greater<>> turns_;
  LeafGradients leaves_;
  const std::vector<GradientEdge>* wanted_ = nullptr;  // null: all leaves get their gradients
  // By these the indices of wanted edges are found, of a leaf the first; they are never iterated.
  std::unordered_multimap<const Node*, std::size_t> wanted_nodes_;
  std::unordered_map<const Tensor::Storage*, std::size_t> wanted_leaves_;
  std::unordered_set<const Node*> needed_;  // never iterated
  std::vector<Tensor> captured_;
  std::vector<DeferredNode>* deferred_ = nullptr;  // null: what is not wanted is dropped
};

}  // namespace kernbench::autograd
