// Functions that are called in a backward pass, and at its end, and what they leave.

#pragma once

#include <functional>
#include <vector>

namespace kernbench {
class Tensor;
}
namespace kernbench::runtime {
class Simulation;
}

namespace kernbench::autograd {

// Calls `callback` at the end of the backward() that the caller is in, of the outermost one where
// a Backward or a hook calls backward() itself (torch's Engine::queue_callback).
// REQUIRES: the caller is in one
void queue_callback(runtime::Simulation& simulation, std::function<void()> callback);

// A backward pass, while it lives.
class Callbacks {
 public:
  explicit Callbacks(runtime::Simulation& simulation);
  ~Callbacks();
  Callbacks(const Callbacks&) = delete;
  Callbacks& operator=(const Callbacks&) = delete;

  // Calls those that were queued in this pass, in their order.
  void run();

 private:
  friend void queue_callback(runtime::Simulation&, std::function<void()>);

  Callbacks*& current_;  // the caller's outermost pass
  std::vector<std::function<void()>> queued_;
};

// Calls `hook` in each backward() that reaches a leaf: when its gradient has been added to grad(),
// or when it is known that none comes, as for what only outputs lead to that the loss does not use
// (a post hook of torch's AccumulateGrad).
// REQUIRES: the leaf requires a gradient
void add_reach_hook(const Tensor& leaf, std::function<void()> hook);

// Makes `gradient` the grad() of a leaf: its memory is that of a gradient, of the leaf's module.
void set_grad(const Tensor& leaf, const Tensor& gradient);

// Calls what Tensor::register_post_accumulate_grad_hook() has registered for a leaf whose grad()
// has been added to.
void call_after_accumulation(const Tensor& leaf);

}  // namespace kernbench::autograd
