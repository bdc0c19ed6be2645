#include "runtime/autograd/split_backward.h"

#include <algorithm>
#include <utility>

#include "runtime/autograd/backward_start.h"
#include "runtime/autograd/callbacks.h"
#include "runtime/ops/fusion.h"
#include "runtime/tensor/tensor_storage.h"
#include "sim_engine/base/check.h"

namespace kernbench::autograd {

SplitBackward::SplitBackward(const Tensor& output, const Tensor& gradient,
                             const std::vector<Tensor>& inputs) {
  check_requires_grad(output, 0);
  simulation_ = output.storage()->simulation;
  const NoGradGuard no_grad(*simulation_);
  Callbacks callbacks(*simulation_);
  BackwardStart start = start_of(output, gradient);
  start_ = start.edge;
  reached_ = std::move(start.reached);
  std::vector<GradientEdge> wanted;
  for (const Tensor& input : inputs) {
    KB_CHECK(input.is_leaf(), "'{}' is no leaf", input.name());
    wanted.push_back(edge_to(input));
  }
  BackwardPass pass(*simulation_, wanted, {start_}, false);
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

std::vector<Tensor> SplitBackward::leaves() const {
  std::vector<Tensor> all;
  for (const ReachedLeaf& each : reached_.leaves) all.push_back(each.leaf);
  return all;
}

void SplitBackward::run_weights() {
  KB_CHECK(!std::exchange(has_run_, true), "the weights have their gradients");
  const NoGradGuard no_grad(*simulation_);
  Callbacks callbacks(*simulation_);
  BackwardPass pass(*simulation_, std::move(reached_.leaves), false);
  if (gradient_.defined()) pass.at(start_).add(std::exchange(gradient_, {}));
  for (DeferredNode& each : std::exchange(deferred_, {})) pass.resume(std::move(each));
  pass.run();
  std::ranges::for_each(reached_.nodes, &Node::free_saved);
  callbacks.run();
}

}  // namespace kernbench::autograd
