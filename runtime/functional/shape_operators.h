// Operators that change shapes.

#pragma once

#include <cstdint>
#include <initializer_list>
#include <vector>

#include "runtime/tensor/tensor.h"

namespace kernbench {

// Returns the same elements in another shape: a view, which shares memory with x and costs no
// time.  One size may be -1 and is then computed.  Throws DeviceError KB-F001 if the number of
// elements differs, KB-F003 if a holder's part of x is not its part of the result.
Tensor reshape(const Tensor& x, const Shape& shape);
Tensor reshape(const Tensor& x, std::initializer_list<std::int64_t> sizes);

// Exchanges two dimensions, negative ones counted from the last; a kernel moves the elements.  If
// one of them is cut, the result is cut along the other, which must be its first or last
// (KB-F003).  KB-F001 if there is no such dimension.
Tensor transpose(const Tensor& x, int dim0, int dim1);

// Concatenates tensors of one type and placement along a dimension that is not cut (torch.cat);
// their other sizes must be equal.  KB-F001, KB-F002, KB-F003.
Tensor cat(const std::vector<Tensor>& tensors, int dim = 0);

// Returns elements [start, start + length) along a dimension that is not cut.  Where the dimensions
// before it have size 1, as the first dimension always has it, they are a view: what is written
// into it is written into x.  Else a kernel copies them into memory of their own (torch.narrow
// makes a view there too).  KB-F001, KB-F003.
Tensor narrow(const Tensor& x, int dim, std::int64_t start, std::int64_t length);

// Applies narrow() to consecutive parts of `split_size`, the last perhaps smaller, or of the given
// sizes, whose sum is the dimension's size (torch.split).
std::vector<Tensor> split(const Tensor& x, std::int64_t split_size, int dim = 0);
std::vector<Tensor> split(const Tensor& x, const std::vector<std::int64_t>& sizes, int dim = 0);

// Turns [s, heads d] into [heads, s, d], for attention.  A column_wise level becomes row_wise,
// with heads on each PE, if every holder has whole heads (KB-F003); a row_wise level is refused.
// KB-F001 if the columns are no multiple of the heads.
Tensor split_heads(const Tensor& x, std::int64_t heads);
// Turns [heads, s, d] into [s, heads d]: the inverse of split_heads().
Tensor merge_heads(const Tensor& x);

}  // namespace kernbench
