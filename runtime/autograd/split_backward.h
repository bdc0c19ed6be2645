// A backward pass in two halves, as zero-bubble pipelines run it: the gradients of inputs first,
// which another rank waits for, those of parameters when there is time
// (torch.distributed.pipelining's stage_backward_input and stage_backward_weight; arXiv
// 2401.10241).

#pragma once

#include <memory>
#include <vector>

#include "runtime/autograd/backward_pass.h"
#include "runtime/autograd/reach.h"

namespace kernbench::autograd {

class SplitBackward {
 public:
  // Computes the gradients of `inputs` as output.backward(gradient) would.  An operator whose
  // Backward is selective, such as a matrix product, leaves the gradients of its parameters to
  // run_weights(); another one computes them now, to be added then.  Without inputs nothing is
  // computed. Throws CollectiveError as Tensor::backward() does, and KB-A031 for what checkpoint()
  // has made. REQUIRES: inputs are leaves, and none of them is a parameter
  SplitBackward(const Tensor& output, const Tensor& gradient, const std::vector<Tensor>& inputs);

  SplitBackward(SplitBackward&&) = default;

  // By input; undefined where no gradient has come.  They are the caller's from now on.
  std::vector<Tensor> take_input_gradients() { return std::move(input_gradients_); }
  // Returns the leaves that the whole pass gives gradients to.  REQUIRES: the weights have none yet
  std::vector<Tensor> leaves() const;

  // Adds the gradients of all other leaves to their grad(), and calls their hooks, as the rest of
  // output.backward(gradient) would: the sums have the same bits.
  // REQUIRES: it has not been called
  void run_weights();

 private:
  std::shared_ptr<runtime::Simulation> simulation_;
  GradientEdge start_;  // which keeps the graph
  Reached reached_;
  std::vector<DeferredNode> deferred_;
  bool has_run_ = false;
  std::vector<Tensor> input_gradients_;
  Tensor gradient_;  // of the output, if it leads to no input
};

}  // namespace kernbench::autograd
