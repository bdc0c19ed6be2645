// The gradients of leaves in a backward pass.

#pragma once

#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "runtime/autograd/gradient_sum.h"
#include "runtime/autograd/reach.h"

namespace kernbench::autograd {

// Throws KB-A006 unless the gradient fits a tensor of this form.
void check_gradient(const Tensor& gradient, const GradientForm& form, std::string_view from);

// Calls the hooks with a complete gradient; returns it, or what they put in its place.
Tensor with_hooks(const Hooks& hooks, Tensor gradient, const GradientForm& form);

// Sums up what flows to each leaf.  As soon as all that can flow to it has come, a leaf's sum is
// added to its grad(), and its hooks are called.
class LeafGradients {
 public:
  explicit LeafGradients(std::vector<ReachedLeaf> leaves) : reached_(std::move(leaves)) {}

  GradientSum& of(const Tensor& leaf) { return sums_[leaf.storage().get()]; }
  // Returns the sum for a leaf, after its hooks, and forgets it; undefined if nothing has come.
  Tensor take(const Tensor& leaf);
  // Says if leaves may wait for gradients whose values are deferred: one kernel may then compute
  // several.  A leaf with a hook, such as one of DDP's buckets, never waits.
  enum class Waits { no, while_deferred };
  // Gives their gradients to the leaves to which no node of this number or a lower one contributes.
  void give_before(std::uint64_t next, Waits waits);

 private:
  struct Complete {
    Tensor leaf;
    Tensor gradient;  // undefined if none has come, and hooks want to know that
  };

  void give_waiting(Waits waits);
  static void compute(const std::vector<Complete>& all);
  static void make_own(std::vector<Complete>& all);
  std::vector<Complete> take_completed_by(std::uint64_t node);

  const std::vector<ReachedLeaf> reached_;
  std::size_t given_ = 0;  // of `reached_`
  std::vector<Complete> waiting_;
  std::unordered_map<const Tensor::Storage*, GradientSum> sums_;  // never iterated
};

}  // namespace kernbench::autograd
