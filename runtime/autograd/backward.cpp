// Tensor::backward() and grad().

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "runtime/autograd/autograd.h"
#include "runtime/autograd/backward_pass.h"
#include "runtime/autograd/backward_start.h"
#include "runtime/autograd/callbacks.h"
#include "runtime/tensor/tensor_storage.h"
#include "sim_engine/base/error.h"

namespace kernbench {

namespace {

using autograd::BackwardPass;
using autograd::GradientEdge;
using autograd::Node;

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
  for (std::size_t i = 0; i < outputs.size(); ++i) autograd::check_requires_grad(outputs[i], i);
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
    Tensor first =
        autograd::first_gradient(outputs[i], grad_outputs.empty() ? Tensor() : grad_outputs[i]);
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
  autograd::check_requires_grad(*this, 0);
  runtime::Simulation& simulation = *checked().simulation;
  const NoGradGuard no_grad(simulation);
  autograd::Callbacks callbacks(simulation);
  autograd::BackwardStart start = autograd::start_of(*this, gradient);
  BackwardPass pass(simulation, std::move(start.reached.leaves), retain_graph);
  pass.at(start.edge).add(std::move(start.gradient));
  pass.run();
  // As in torch, where undefined gradients flow, nodes that no gradient has come to are used up
  // too.
  if (!retain_graph) std::ranges::for_each(start.reached.nodes, &Node::free_saved);
  callbacks.run();
}

}  // namespace kernbench
