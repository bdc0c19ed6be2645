// torch::autograd::grad.

#pragma once

#include <vector>

#include "runtime/tensor/tensor.h"

namespace kernbench::autograd {

struct GradOptions {
  bool retain_graph = false;
  bool create_graph = false;  // derivatives of derivatives are not recorded: KB-A025
  bool allow_unused = false;  // an input that no gradient reaches gets an undefined one
};

// Returns the sums of the gradients of the outputs with respect to each input, as backward() would
// add them to grad(), which stays as it is.  An input may be a leaf or computed.  Without
// `grad_outputs`, or where one is undefined, an output must have one element.  Only what leads to
// an input is computed.
// Throws CollectiveError as backward() does, KB-A001 for an input that requires no gradient,
// KB-A026 for one that no gradient reaches, in torch's words.
std::vector<Tensor> grad(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                         const std::vector<Tensor>& grad_outputs = {},
                         const GradOptions& options = {});

}  // namespace kernbench::autograd
