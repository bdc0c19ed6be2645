// Matrices that lie column by column.

#pragma once

#include "runtime/tensor/tensor.h"

namespace kernbench::runtime {

// Returns the transpose of a matrix that lies column by column, as t() of a dense one does: a dense
// tensor in the same memory, which needs no gradient.  Undefined for another tensor.
Tensor dense_transpose(const Tensor& x);

}  // namespace kernbench::runtime
