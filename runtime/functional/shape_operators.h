// Operators that change shapes.

#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <vector>

#include "runtime/tensor/tensor.h"

namespace kernbench {

// Returns x if its elements lie row by row in the memory of each holder, else a copy of which that
// is true, made by a kernel (torch's x.contiguous()).  All operators do so with their operands.
Tensor contiguous(const Tensor& x);
std::vector<Tensor> contiguous(std::vector<Tensor> tensors);

// Returns the same elements in another shape: a view, which shares memory with x and costs no
// time, of x or, where x is not contiguous, of a copy.  One size may be -1 and is then computed.
// Throws DeviceError KB-F001 if the number of elements differs, KB-F003 if a holder's part of x is
// not its part of the result.
Tensor reshape(const Tensor& x, const Shape& shape);
Tensor reshape(const Tensor& x, std::initializer_list<std::int64_t> sizes);
// The same, but never of a copy (torch's x.view()): writing into the result writes into x.  Throws
// KB-F001 also where no strides give x's elements this shape.
Tensor view(const Tensor& x, const Shape& shape);
Tensor view(const Tensor& x, std::initializer_list<std::int64_t> sizes);

// Views with the dimensions in another order, or with two exchanged; negative ones count from the
// last.  A dimension that is cut must become the first or the last (KB-F003).  KB-F001 if there is
// no such dimension.
Tensor permute(const Tensor& x, const std::vector<int>& dims);
Tensor transpose(const Tensor& x, int dim0, int dim1);

// A view in which dimensions of size 1, and new ones before the first, repeat; -1 keeps a size.
// Several of its elements are one of x, so nothing may be written into it.  KB-F001, KB-F003.
Tensor expand(const Tensor& x, const std::vector<std::int64_t>& sizes);

// Views with a dimension of size 1 more, or less; x itself if the size is another.  KB-F001.
Tensor unsqueeze(const Tensor& x, int dim);
Tensor squeeze(const Tensor& x, int dim);

// Concatenates tensors of one type and placement along a dimension that is not cut (torch.cat);
// their other sizes must be equal.  KB-F001, KB-F002, KB-F003.
Tensor cat(const std::vector<Tensor>& tensors, int dim = 0);

// Views of elements [start, start + length) along a dimension that is not cut; of each `step`-th
// from start up to end, counted as Python does; and of one index, without the dimension.
// KB-F001, KB-F003.
Tensor narrow(const Tensor& x, int dim, std::int64_t start, std::int64_t length);
Tensor slice(const Tensor& x, int dim, std::int64_t start,
             std::int64_t end = std::numeric_limits<std::int64_t>::max(), std::int64_t step = 1);
Tensor select(const Tensor& x, int dim, std::int64_t index);

// Applies narrow() to consecutive parts of `split_size`, the last perhaps smaller, or of the given
// sizes, whose sum is the dimension's size (torch.split).
std::vector<Tensor> split(const Tensor& x, std::int64_t split_size, int dim = 0);
std::vector<Tensor> split(const Tensor& x, const std::vector<std::int64_t>& sizes, int dim = 0);

// Concatenates tensors of one shape along a new dimension (torch.stack).
Tensor stack(const std::vector<Tensor>& tensors, int dim = 0);
// Splits into that many parts of equal size, the last perhaps smaller (torch.chunk).
std::vector<Tensor> chunk(const Tensor& x, std::int64_t chunks, int dim = 0);
// Merges dimensions start to end, both included, into one (torch.flatten).
Tensor flatten(const Tensor& x, int start_dim = 0, int end_dim = -1);
// Removes all dimensions of size 1.
Tensor squeeze(const Tensor& x);
// Repeats x along each dimension, new ones in front (torch.Tensor.repeat).
Tensor repeat(const Tensor& x, const std::vector<std::int64_t>& times);
// Applies select() to each index (torch.unbind).
std::vector<Tensor> unbind(const Tensor& x, int dim = 0);

// A view of all windows of `size` elements along a dimension that is not cut, `step` apart: it has
// their number there, and a further dimension of their elements at the end (torch.Tensor.unfold).
// KB-F001, KB-F003.
Tensor unfold(const Tensor& x, int dim, std::int64_t size, std::int64_t step);
// Replaces a dimension by several, of which one may be -1: the inverse of flatten().
Tensor unflatten(const Tensor& x, int dim, const std::vector<std::int64_t>& sizes);

// Returns x with another placement on its device: one kernel reads from other PEs' memories what a
// holder needs; what is partial is summed up on the way, in f32 or exactly (DTensor.redistribute).
// KB-F003 for a partial placement, whose summands nobody could say.
Tensor redistribute(const Tensor& x, const DPPolicy& dp);

// Turns [s, heads d] into [heads, s, d], for attention.  A column_wise level becomes row_wise,
// with heads on each PE, if every holder has whole heads (KB-F003); a row_wise level is refused.
// KB-F001 if the columns are no multiple of the heads.
Tensor split_heads(const Tensor& x, std::int64_t heads);
// Turns [heads, s, d] into [s, heads d]: the inverse of split_heads().
Tensor merge_heads(const Tensor& x);

namespace nn::functional {

// Elements with a value before and behind those of the last dimensions: {left, right} of the last
// one, {left, right, top, bottom} of the last two, ..., as a copy for each dimension
// (torch.nn.functional.pad, mode constant).  A negative number takes elements away.  KB-F001, and
// KB-F003 for a dimension that is cut.
Tensor pad(const Tensor& x, const std::vector<std::int64_t>& pad, const Scalar& value = 0);

}  // namespace nn::functional

}  // namespace kernbench
