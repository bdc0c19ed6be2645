// The tokens of whole tensors that each rank of a ring has.

#pragma once

#include "runtime/context_parallel/ring.h"

namespace kernbench::experimental {

// Returns a copy of the caller's part of the dimension of tokens.  Throws CollectiveError KB-C025
// for tokens that the order cannot share evenly.
Tensor tokens_of_rank(const Tensor& whole, int dim, const Ring& ring);
// Returns the whole of which each rank gives its part.
Tensor gather_tokens(const Tensor& part, int dim, const Ring& ring);

}  // namespace kernbench::experimental
