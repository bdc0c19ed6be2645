// Operators on each element.  Each launches a kernel on every PE that holds a part, in forward and
// in backward.  Elements are computed in f32 and rounded once to the tensors' type.
//
// Operands are of one type and lie on the same holders (KB-F002, KB-F003); placements as ADR-0131
// says.  b has the shape of a, or is a vector [n] beside an a of [..., n] (KB-F001).

#pragma once

#include "runtime/tensor/tensor.h"

namespace kernbench {

// a + b: the same placements, of which partial is one.
Tensor operator+(const Tensor& a, const Tensor& b);
// a b: the same placements, or one partial and the other replicated.
Tensor operator*(const Tensor& a, const Tensor& b);

// max(x, 0); its gradient at 0 is 0, as torch's.  Not of a partial tensor.
Tensor relu(const Tensor& x);

// The same elements in memory of its own (torch.clone).
Tensor clone(const Tensor& x);

}  // namespace kernbench
