// Tensor::backward() and grad().

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "runtime/autograd/autograd.h"
#include "runtime/autograd/backward_pass.h"
#include "runtime/autograd/callbacks.h"
#include "runtime/autograd/split_backward.h"
#include "runtime/autograd/view.h"
#include "runtime/ops/device_kernel.h"
#include "runtime/ops/elements.h"
#include "runtime/ops/strided_copy.h"
#include "runtime/tensor/tensor_storage.h"
#include "sim_engine/base/error.h"

namespace kernbench {

namespace {

using autograd::BackwardPass;
using autograd::GradientEdge;
using autograd::GradientForm;
using autograd::Node;

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

namespace {

// The end of a graph at which a backward pass begins, and the gradient with which it does.
struct Start {
  GradientEdge edge;
  Tensor gradient;
  autograd::Reached reached;
};

Start start_of(const Tensor& output, const Tensor& gradient) {
  Tensor first = first_gradient(output, gradient);
  const auto& meta = output.storage()->autograd;
  GradientEdge edge{meta->recorded, meta->recorded == nullptr ? output : Tensor(),
                    autograd::make_gradient_form(output)};
  auto reached =
      autograd::reached_from({edge}, autograd::NodeList::of(*output.storage()->simulation));
  if (is_grad_of(reached.leaves, first)) first = ops::make_copy(first);
  return {std::move(edge), std::move(first), std::move(reached)};
}

}  // namespace

void Tensor::backward(const Tensor& gradient, bool retain_graph) const {
  check_requires_grad(*this, 0);
  runtime::Simulation& simulation = *checked().simulation;
  const NoGradGuard no_grad(simulation);
  autograd::Callbacks callbacks(simulation);
  Start start = start_of(*this, gradient);
  BackwardPass pass(simulation, std::move(start.reached.leaves), retain_graph);
  pass.at(start.edge).add(std::move(start.gradient));
  pass.run();
  // As in torch, where undefined gradients flow, nodes that no gradient has come to are used up
  // too.
  if (!retain_graph) std::ranges::for_each(start.reached.nodes, &Node::free_saved);
  callbacks.run();
}

autograd::SplitBackward::SplitBackward(const Tensor& output, const Tensor& gradient,
                                       const std::vector<Tensor>& inputs) {
  check_requires_grad(output, 0);
  runtime::Simulation& simulation = *output.storage()->simulation;
  const NoGradGuard no_grad(simulation);
  Callbacks callbacks(simulation);
  simulation_ = output.storage()->simulation;
  Start start = start_of(output, gradient);
  start_ = start.edge;
  reached_ = std::move(start.reached);
  std::vector<GradientEdge> wanted;
  for (const Tensor& input : inputs) wanted.push_back(edge_to(input));
  BackwardPass pass(simulation, wanted, {start_}, false);
  pass.keep_deferred_in(deferred_);
  if (pass.is_needed(start_)) {
    pass.at(start_).add(std::move(start.gradient));
  } else {
    gradient_ = std::move(start.gradient);
  }
  pass.run();
  input_gradients_ = pass.captured();
  for (const DeferredNode& each : deferred_) {
    ops::compute(each.of_results);
    ops::compute(each.of_inputs);
  }
  callbacks.run();
}

void autograd::SplitBackward::run_weights() {
  const NoGradGuard no_grad(*simulation_);
  Callbacks callbacks(*simulation_);
  BackwardPass pass(*simulation_, std::move(reached_.leaves), false);
  if (gradient_.defined()) pass.at(start_).add(std::exchange(gradient_, {}));
  for (DeferredNode& each : std::exchange(deferred_, {})) pass.resume(std::move(each));
  pass.run();
  std::ranges::for_each(reached_.nodes, &Node::free_saved);
  callbacks.run();
}

}  // namespace kernbench
