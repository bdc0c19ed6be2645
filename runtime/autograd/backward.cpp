// Tensor::backward() and grad().

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "runtime/autograd/autograd.h"
#include "runtime/autograd/callbacks.h"
#include "runtime/autograd/leaf_gradients.h"
#include "runtime/autograd/view.h"
#include "runtime/autograd/watched_gradient.h"
#include "runtime/ops/device_kernel.h"
#include "runtime/ops/elements.h"
#include "runtime/ops/fusion.h"
#include "runtime/ops/strided_copy.h"
#include "runtime/tensor/tensor_storage.h"
#include "sim_engine/base/error.h"

namespace kernbench {

namespace {

using autograd::GradientEdge;
using autograd::GradientForm;
using autograd::GradientSum;
using autograd::LeafGradients;
using autograd::Node;
using autograd::WatchedGradient;

// Runs nodes in descending order of their numbers.  A node's number is larger than those of the
// nodes that made its inputs, so by its turn all nodes that use its result have run.  The order is
// that of the program, the same on every rank.
class BackwardPass {
 public:
  BackwardPass(runtime::Simulation& simulation, std::vector<autograd::ReachedLeaf> leaves,
               bool retain_graph)
      : simulation_(simulation), retain_graph_(retain_graph), leaves_(std::move(leaves)) {}
  // A pass that computes the gradients of these edges alone, and adds to no grad().
  BackwardPass(runtime::Simulation& simulation, const std::vector<GradientEdge>& wanted,
               const std::vector<GradientEdge>& from, bool retain_graph)
      : simulation_(simulation),
        retain_graph_(retain_graph),
        leaves_({}),
        wanted_(&wanted),
        needed_(autograd::nodes_between(from, wanted, autograd::NodeList::of(simulation))),
        captured_(wanted.size()) {}

  // Returns the sum of the gradients that flow along an edge.
  GradientSum& at(const GradientEdge& edge);
  void run();
  // False for an edge that leads to no wanted one.
  bool is_needed(const GradientEdge& edge) const {
    return wanted_ == nullptr || edge.leaf.defined() || needed_.contains(edge.node.get());
  }
  // The gradients of the wanted edges; undefined where none has come.
  const std::vector<Tensor>& captured() const { return captured_; }

 private:
  struct Turn {
    std::shared_ptr<Node> node;
    GradientForm form;  // of its result
    GradientSum sum;
    std::vector<GradientSum> sums;  // in place of `sum`, of a node of several results

    Tensor take_gradient();
    std::vector<Tensor> take_gradients();
  };

  std::vector<Tensor> run(Node& node, const std::vector<Tensor>& gradients) const;
  void give(const Node& node, std::size_t input, Tensor gradient);
  void capture(const Node& node, const Tensor& gradient);
  void capture_leaves();
  bool leads_on(const Node& node) const;

  runtime::Simulation& simulation_;
  const bool retain_graph_;
  ops::Fusion fusion_{ops::Fusion::Joins::yes};  // of the operators of compiled calls
  std::map<std::uint64_t, Turn, std::greater<>> turns_;
  LeafGradients leaves_;
  const std::vector<GradientEdge>* wanted_ = nullptr;  // null: all leaves get their gradients
  std::unordered_set<const Node*> needed_;             // never iterated
  std::vector<Tensor> captured_;
};

GradientSum& BackwardPass::at(const GradientEdge& edge) {
  if (edge.leaf.defined()) return leaves_.of(edge.leaf);
  Turn& turn = turns_[edge.node->number];
  if (turn.node == nullptr) {
    turn = {edge.node, edge.form, {}, std::vector<GradientSum>(edge.node->results.size())};
  }
  return turn.sums.empty() ? turn.sum : turn.sums[edge.result];
}

// Returns the complete gradient of the node's result.
Tensor BackwardPass::Turn::take_gradient() {
  Tensor gradient = autograd::with_hooks(node->hooks, sum.take(form.shape), form);
  if (const auto result = node->retains_grad.lock()) result->autograd->grad = gradient;
  return gradient;
}

// Where no gradient has come to one of several results, there are zeros, or an undefined tensor.
std::vector<Tensor> BackwardPass::Turn::take_gradients() {
  if (sums.empty()) return {take_gradient()};
  std::vector<Tensor> gradients(sums.size());
  Tensor any;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    if (sums[i].is_empty()) continue;
    any = gradients[i] = sums[i].take(node->results[i].shape);
  }
  for (std::size_t i = 0; node->materializes && i < sums.size(); ++i) {
    if (gradients[i].defined()) continue;
    gradients[i] = autograd::zero_gradient(*any.storage(), node->results[i]);
  }
  return gradients;
}

void check_has_not_run(const Node& node) {
  if (!node.has_run()) return;
  throw CollectiveError(
      "KB-A004",
      "Trying to backward through the graph a second time (or directly access saved tensors "
      "after they have already been freed). Saved intermediate values of the graph are freed "
      "when you call .backward() or autograd.grad(). Specify retain_graph=True if you need to "
      "backward through the graph a second time: the operator is {}",
      node.name);
}

std::vector<Tensor> BackwardPass::run(Node& node, const std::vector<Tensor>& gradients) const {
  check_has_not_run(node);
  const runtime::InModule in(simulation_.run_log(), simulation_.local().rank, node.module, nullptr);
  const std::vector<WatchedGradient> watched(gradients.begin(), gradients.end());
  std::vector<Tensor> of_inputs =
      node.results.empty() ? node.backward(gradients.front()) : node.backward_of_several(gradients);
  for (const WatchedGradient& one : watched)
    one.check(fmt::format("the backward of {}", node.name));
  if (!retain_graph_) node.free_saved();
  if (of_inputs.size() == node.edges.size()) return of_inputs;
  throw CollectiveError(
      "KB-A006", "Function {} returned an incorrect number of gradients (expected {}, got {})",
      node.name, node.edges.size(), of_inputs.size());
}

void BackwardPass::give(const Node& node, std::size_t input, Tensor gradient) {
  const GradientEdge& edge = node.edges[input];
  if (!edge.wants_gradient() || !gradient.defined() || !is_needed(edge)) return;
  if (node.part) return at(edge).add(std::move(gradient), *node.part);
  check_gradient(
      gradient, edge.form,
      fmt::format("Function {} returned an invalid gradient at index {}", node.name, input));
  at(edge).add(std::move(gradient));
}

void BackwardPass::run() {
  while (!turns_.empty()) {
    Turn turn = std::move(turns_.extract(turns_.begin()).mapped());
    Node& node = *turn.node;
    leaves_.give_before(node.number, node.is_fused ? LeafGradients::Waits::while_deferred
                                                   : LeafGradients::Waits::no);
    const std::vector<Tensor> gradients_of_results = turn.take_gradients();
    if (wanted_ != nullptr) {
      capture(node, gradients_of_results.front());
      if (!leads_on(node)) continue;
    }
    // Sums of gradients are deferred as the operators are that compute them.
    const ops::FusionScope scope(simulation_, node.is_fused ? &fusion_ : nullptr);
    std::vector<Tensor> gradients = run(node, gradients_of_results);
    for (std::size_t i = 0; i < gradients.size(); ++i) give(node, i, std::move(gradients[i]));
  }
  if (wanted_ != nullptr) return capture_leaves();
  leaves_.give_before(0, LeafGradients::Waits::no);
}

// True if a wanted edge is reached through the node's inputs.
bool BackwardPass::leads_on(const Node& node) const {
  return std::ranges::any_of(node.edges, [&](const GradientEdge& edge) {
    if (edge.node != nullptr) return needed_.contains(edge.node.get());
    return edge.leaf.defined() && std::ranges::any_of(*wanted_, [&](const GradientEdge& wanted) {
             return wanted.leaf.defined() && wanted.leaf.storage() == edge.leaf.storage();
           });
  });
}

void BackwardPass::capture(const Node& node, const Tensor& gradient) {
  for (std::size_t i = 0; i < wanted_->size(); ++i) {
    if ((*wanted_)[i].node.get() == &node) captured_[i] = gradient;
  }
}

void BackwardPass::capture_leaves() {
  for (std::size_t i = 0; i < wanted_->size(); ++i) {
    const GradientEdge& edge = (*wanted_)[i];
    if (!edge.leaf.defined()) continue;
    const auto same = std::ranges::find_if(*wanted_, [&](const GradientEdge& other) {
      return other.leaf.defined() && other.leaf.storage() == edge.leaf.storage();
    });
    const auto first = static_cast<std::size_t>(same - wanted_->begin());
    captured_[i] = first < i ? captured_[first] : leaves_.take(edge.leaf);
  }
  ops::compute(captured_);
}

// Returns the gradient with which backward() begins.
Tensor first_gradient(const Tensor& output, const Tensor& gradient) {
  const GradientForm form = autograd::make_gradient_form(output);
  if (gradient.defined()) {
    check_gradient(gradient, form, "Mismatch of gradient and tensor");
    return ops::dense(gradient);
  }
  if (output.numel() != 1) {
    throw CollectiveError("KB-A003",
                          "grad can be implicitly created only for scalar outputs: tensor '{}' is "
                          "{}; sum() it, or give a gradient of that shape",
                          output.name(), to_string(output.shape()));
  }
  Tensor one = ops::make_like(output, "grad", form.shape, form.dtype,
                              ops::gradient_placement(form.placement));
  runtime::fill(*one.storage(), 1);
  return one;
}

// True if the gradient shares memory with the grad() of a leaf, which the pass will write.
bool is_grad_of(const std::vector<autograd::ReachedLeaf>& leaves, const Tensor& gradient) {
  return std::ranges::any_of(leaves, [&](const autograd::ReachedLeaf& reached) {
    const Tensor grad = reached.leaf.grad();
    return grad.defined() && grad.storage()->memory == gradient.storage()->memory;
  });
}

}  // namespace

namespace {

void check_requires_grad(const Tensor& output, std::size_t element) {
  if (output.requires_grad()) return;
  throw CollectiveError(
      "KB-A001",
      "element {} of tensors does not require grad and does not have a grad_fn: tensor '{}' was "
      "not computed, with gradients enabled, from one that requires_grad_()",
      element, output.name());
}

void check_options(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                   const std::vector<Tensor>& grad_outputs, const autograd::GradOptions& options) {
  if (options.create_graph) {
    throw CollectiveError("KB-A025",
                          "grad: create_graph=True needs derivatives of derivatives, which are not "
                          "recorded here: call grad() of an expression of your own instead");
  }
  if (outputs.empty() || inputs.empty()) {
    throw CollectiveError("KB-A001", "grad requires non-empty inputs and outputs.");
  }
  if (!grad_outputs.empty() && grad_outputs.size() != outputs.size()) {
    throw CollectiveError("KB-A003", "got {} tensors and {} gradients", outputs.size(),
                          grad_outputs.size());
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) check_requires_grad(outputs[i], i);
  for (const Tensor& input : inputs) {
    if (input.requires_grad()) continue;
    throw CollectiveError(
        "KB-A001", "One of the differentiated Tensors does not require grad: '{}'", input.name());
  }
}

}  // namespace

std::vector<Tensor> autograd::grad(const std::vector<Tensor>& outputs,
                                   const std::vector<Tensor>& inputs,
                                   const std::vector<Tensor>& grad_outputs,
                                   const GradOptions& options) {
  check_options(outputs, inputs, grad_outputs, options);
  runtime::Simulation& simulation = *outputs.front().storage()->simulation;
  const NoGradGuard no_grad(simulation);
  std::vector<GradientEdge> from;
  std::vector<GradientEdge> wanted;
  for (const Tensor& output : outputs) from.push_back(edge_to(output));
  for (const Tensor& input : inputs) wanted.push_back(edge_to(input));
  BackwardPass pass(simulation, wanted, from, options.retain_graph);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    Tensor first = first_gradient(outputs[i], grad_outputs.empty() ? Tensor() : grad_outputs[i]);
    if (pass.is_needed(from[i])) pass.at(from[i]).add(std::move(first));
  }
  pass.run();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (options.allow_unused || pass.captured()[i].defined()) continue;
    throw CollectiveError("KB-A026",
                          "One of the differentiated Tensors appears to not have been used in the "
                          "graph. Set allow_unused=True if this is the desired behavior: '{}'",
                          inputs[i].name());
  }
  return pass.captured();
}

void Tensor::backward(const Tensor& gradient, bool retain_graph) const {
  check_requires_grad(*this, 0);
  runtime::Simulation& simulation = *checked().simulation;
  const NoGradGuard no_grad(simulation);
  autograd::Callbacks callbacks(simulation);
  Tensor first = first_gradient(*this, gradient);
  const auto& meta = checked().autograd;
  const GradientEdge edge{meta->recorded, meta->recorded == nullptr ? *this : Tensor(),
                          autograd::make_gradient_form(*this)};
  auto reached = autograd::reached_from({edge}, autograd::NodeList::of(simulation));
  if (is_grad_of(reached.leaves, first)) first = ops::make_copy(first);
  BackwardPass pass(simulation, std::move(reached.leaves), retain_graph);
  pass.at(edge).add(std::move(first));
  pass.run();
  // As in torch, where undefined gradients flow, nodes that no gradient has come to are used up
  // too.
  if (!retain_graph) std::ranges::for_each(reached.nodes, &Node::free_saved);
  callbacks.run();
}

}  // namespace kernbench
