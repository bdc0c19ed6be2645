#include "runtime/autograd/backward_pass.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "runtime/autograd/view.h"
#include "runtime/autograd/watched_gradient.h"
#include "runtime/ops/elements.h"
#include "runtime/tensor/memory_space.h"
#include "runtime/tensor/tensor_storage.h"
#include "sim_engine/base/error.h"

namespace kernbench::autograd {

namespace {

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

}  // namespace

BackwardPass::BackwardPass(runtime::Simulation& simulation, const std::vector<GradientEdge>& wanted,
                           const std::vector<GradientEdge>& from, bool retain_graph)
    : simulation_(simulation),
      retain_graph_(retain_graph),
      leaves_({}),
      wanted_(&wanted),
      needed_(nodes_between(from, wanted, NodeList::of(simulation))),
      captured_(wanted.size()) {
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i].node != nullptr) wanted_nodes_.emplace(wanted[i].node.get(), i);
    if (wanted[i].leaf.defined()) wanted_leaves_.emplace(wanted[i].leaf.storage().get(), i);
  }
}

GradientSum& BackwardPass::at(const GradientEdge& edge) {
  if (edge.leaf.defined()) return leaves_.of(edge.leaf);
  Turn& turn = turns_[edge.node->number];
  if (turn.node == nullptr) {
    turn = {edge.node, edge.form, {}, std::vector<GradientSum>(edge.node->results.size()), {}};
  }
  return turn.sums.empty() ? turn.sum : turn.sums[edge.result];
}

bool BackwardPass::is_needed(const GradientEdge& edge) const {
  if (wanted_ == nullptr) return true;
  if (edge.node != nullptr) return needed_.contains(edge.node.get());
  return wanted_leaves_.contains(edge.leaf.storage().get());
}

// Returns the complete gradient of the node's result.
Tensor BackwardPass::Turn::take_gradient() {
  Tensor gradient = with_hooks(node->hooks, sum.take(form.shape), form);
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
    gradients[i] = zero_gradient(*any.storage(), node->results[i]);
  }
  return gradients;
}

std::vector<Tensor> BackwardPass::call(const Node& node, const std::vector<Tensor>& gradients,
                                       const AskedInputs& asked) const {
  check_has_not_run(node);
  const runtime::InModule in(simulation_.run_log(), simulation_.local().rank, node.module, nullptr);
  const std::vector<WatchedGradient> watched(gradients.begin(), gradients.end());
  std::vector<Tensor> of_inputs = node.results.empty() ? node.backward(gradients.front(), asked)
                                                       : node.backward_of_several(gradients);
  for (const WatchedGradient& one : watched)
    one.check(fmt::format("the backward of {}", node.name));
  if (of_inputs.size() == node.edges.size()) return of_inputs;
  throw CollectiveError(
      "KB-A006", "Function {} returned an incorrect number of gradients (expected {}, got {})",
      node.name, node.edges.size(), of_inputs.size());
}

void BackwardPass::give(const Node& node, std::size_t input, Tensor gradient) {
  const GradientEdge& edge = node.edges[input];
  if (!edge.wants_gradient() || !gradient.defined()) return;
  if (node.part) return at(edge).add(std::move(gradient), *node.part);
  check_gradient(
      gradient, edge.form,
      fmt::format("Function {} returned an invalid gradient at index {}", node.name, input));
  at(edge).add(std::move(gradient));
}

AskedInputs BackwardPass::asked_inputs(const Node& node) const {
  if (wanted_ == nullptr) return {};
  std::vector<bool> asked;
  for (const GradientEdge& edge : node.edges) {
    asked.push_back(edge.wants_gradient() && is_needed(edge));
  }
  return AskedInputs(std::move(asked));
}

// Keeps what is left of a node that has run.  Returns true if it will be called again.
bool BackwardPass::defer(const std::shared_ptr<Node>& node, const AskedInputs& asked,
                         std::vector<Tensor> of_results, std::vector<Tensor> of_inputs) {
  DeferredNode deferred{.node = node, .left = {}, .of_results = {}, .of_inputs = {}};
  for (std::size_t i = 0; i < node->edges.size(); ++i) {
    deferred.left.push_back(!asked.contains(i) && node->edges[i].wants_gradient());
  }
  if (std::ranges::find(deferred.left, true) == deferred.left.end()) return false;
  const bool is_called_again = node->backward.is_selective();
  (is_called_again ? deferred.of_results : deferred.of_inputs) =
      is_called_again ? std::move(of_results) : std::move(of_inputs);
  deferred_->push_back(std::move(deferred));
  return is_called_again;
}

void BackwardPass::resume(DeferredNode deferred) {
  Turn turn{.node = deferred.node, .form = {}, .sum = {}, .sums = {}, .resumed = {}};
  turn.resumed = std::move(deferred);
  turns_.emplace(turn.node->number, std::move(turn));
}

void BackwardPass::finish(DeferredNode& resumed) {
  Node& node = *resumed.node;
  if (!resumed.of_results.empty()) {
    resumed.of_inputs = call(node, resumed.of_results, AskedInputs(resumed.left));
  }
  node.free_saved();
  for (std::size_t i = 0; i < resumed.left.size(); ++i) {
    if (resumed.left[i]) give(node, i, std::move(resumed.of_inputs[i]));
  }
}

void BackwardPass::take_turn(Turn& turn) {
  Node& node = *turn.node;
  std::vector<Tensor> of_results;
  if (!turn.resumed) of_results = turn.take_gradients();
  if (wanted_ != nullptr) {
    capture(node, of_results.front());
    if (!leads_on(node)) return;
  }
  // Sums of gradients are deferred as the operators are that compute them.
  const ops::FusionScope scope(simulation_, node.is_fused ? &fusion_ : nullptr);
  if (turn.resumed) return finish(*turn.resumed);
  const AskedInputs asked = asked_inputs(node);
  std::vector<Tensor> of_inputs = call(node, of_results, asked);
  for (std::size_t i = 0; i < of_inputs.size(); ++i) {
    if (asked.contains(i)) give(node, i, std::exchange(of_inputs[i], {}));
  }
  const bool is_called_again =
      deferred_ != nullptr && defer(turn.node, asked, std::move(of_results), std::move(of_inputs));
  if (!retain_graph_ && !is_called_again) node.free_saved();
}

void BackwardPass::run() {
  const runtime::MadeAs detail(simulation_, MemoryKind::autograd_detail);
  while (!turns_.empty()) {
    Turn turn = std::move(turns_.extract(turns_.begin()).mapped());
    leaves_.give_before(turn.node->number, turn.node->is_fused
                                               ? LeafGradients::Waits::while_deferred
                                               : LeafGradients::Waits::no);
    take_turn(turn);
  }
  if (wanted_ != nullptr) return capture_leaves();
  leaves_.give_before(0, LeafGradients::Waits::no);
}

// True if a wanted edge is reached through the node's inputs.
bool BackwardPass::leads_on(const Node& node) const {
  return std::ranges::any_of(node.edges, [&](const GradientEdge& edge) {
    return edge.wants_gradient() && is_needed(edge);
  });
}

void BackwardPass::capture(const Node& node, const Tensor& gradient) {
  const auto [begin, end] = wanted_nodes_.equal_range(&node);
  for (auto wanted = begin; wanted != end; ++wanted) captured_[wanted->second] = gradient;
}

void BackwardPass::capture_leaves() {
  for (std::size_t i = 0; i < wanted_->size(); ++i) {
    const Tensor& leaf = (*wanted_)[i].leaf;
    if (!leaf.defined()) continue;
    const std::size_t first = wanted_leaves_.at(leaf.storage().get());
    captured_[i] = first < i ? captured_[first] : leaves_.take(leaf);
  }
  ops::compute(captured_);
}

}  // namespace kernbench::autograd
