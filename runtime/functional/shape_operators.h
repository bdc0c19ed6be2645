// Operators that change shapes.

#pragma once

#include <cstdint>
#include <initializer_list>
#include <vector>

#include "runtime/tensor/tensor.h"

namespace kernbench {

// The same elements in another shape: a view, which shares memory with x, and costs no time.  One
// size may be -1: what is left for it.  Throws DeviceError KB-F001 if the number of elements
// differs, KB-F003 if a holder's part of x is not its part of the result.
Tensor reshape(const Tensor& x, const Shape& shape);
Tensor reshape(const Tensor& x, std::initializer_list<std::int64_t> sizes);

// Two dimensions exchanged, negative ones counted from the last; a kernel moves the elements.
// Where one of them is cut, the result is cut along the other, which must be its first or last
// (KB-F003).  KB-F001 if there is no such dimension.
Tensor transpose(const Tensor& x, int dim0, int dim1);

// Tensors of one type and placement, one behind the other along a dimension that is not cut
// (torch.cat); their other sizes are the same.  KB-F001, KB-F002, KB-F003.
Tensor cat(const std::vector<Tensor>& tensors, int dim = 0);

// Elements [start, start + length) along a dimension that is not cut, in memory of their own
// (torch.narrow makes a view).  KB-F001, KB-F003.
Tensor narrow(const Tensor& x, int dim, std::int64_t start, std::int64_t length);

// narrow() to parts of `split_size`, of which the last may be smaller, or of the given sizes, whose
// sum is that of the dimension (torch.split).
std::vector<Tensor> split(const Tensor& x, std::int64_t split_size, int dim = 0);
std::vector<Tensor> split(const Tensor& x, const std::vector<std::int64_t>& sizes, int dim = 0);

// [s, heads d] to [heads, s, d], for attention: what is column_wise becomes row_wise, heads on each
// PE, if every holder has whole heads (KB-F003); what is row_wise may not be.  KB-F001 if the
// columns are no multiple of the heads.
Tensor split_heads(const Tensor& x, std::int64_t heads);
// [heads, s, d] to [s, heads d], the reverse.
Tensor merge_heads(const Tensor& x);

}  // namespace kernbench
