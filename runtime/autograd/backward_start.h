// How a backward pass begins.

#pragma once

#include <cstddef>

#include "runtime/autograd/node.h"
#include "runtime/autograd/reach.h"

namespace kernbench::autograd {

// Throws CollectiveError KB-A001, in torch's words, for an output, the caller's n-th, that needs no
// gradient.
void check_requires_grad(const Tensor& output, std::size_t n);

// Returns the gradient with which a pass begins at an output: the one given, or 1.  Throws
// CollectiveError KB-A003, KB-A006 for one that does not fit, or is missing.
Tensor first_gradient(const Tensor& output, const Tensor& gradient);

// The end of a graph at which a pass begins, and what it can reach.
struct BackwardStart {
  GradientEdge edge;
  Tensor gradient;
  Reached reached;
};

// Throws as first_gradient().  REQUIRES: output.requires_grad()
BackwardStart start_of(const Tensor& output, const Tensor& gradient);

}  // namespace kernbench::autograd
