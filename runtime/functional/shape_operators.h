// torch's operators on tensors that change shapes, and those that choose elements by their indices.

#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>
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

// Operators whose indices are elements of a tensor: i64, as argmax gives them, or whole numbers of
// another type.
//
// The host reads them, and so waits for them: a kernel's addresses cannot depend on values.  In a
// run without values every index counts as 0.

// Returns the elements of x with these indices, [n], along a dimension that is not cut
// (torch.index_select).  Throws DeviceError KB-F001 for an index that is out of range, KB-F003.
Tensor index_select(const Tensor& x, int dim, const Tensor& index);

// Returns x's element with each index along the dimension, at the same place along the others, in
// which `index` has at most x's sizes (torch.gather).  KB-F001, KB-F003.
Tensor gather(const Tensor& x, int dim, const Tensor& index);

// Returns x with src's elements at these indices along the dimension, at the same place along the
// others (torch.scatter); the last of several at one place stays.  `index` has at most src's sizes,
// and along the others x's: what it does not reach of src is not read, and of x stays.  scatter_add
// adds them to x's, in f32 or exactly.  KB-F001, KB-F002, KB-F003.
Tensor scatter(const Tensor& x, int dim, const Tensor& index, const Tensor& src);
Tensor scatter(const Tensor& x, int dim, const Tensor& index, const Scalar& value);
Tensor scatter_add(const Tensor& x, int dim, const Tensor& index, const Tensor& src);

// Returns x, to whose elements with these indices along the dimension alpha times those of src are
// added (torch.index_add); what several of them add to one place is summed up first.  KB-F001,
// KB-F002, KB-F003.
Tensor index_add(const Tensor& x, int dim, const Tensor& index, const Tensor& src,
                 double alpha = 1);

// Returns the indices of the elements that are not 0, [n, x.dim()] in i64, on x's holders
// (torch.nonzero).  The host reads x, and so waits: the shape depends on values.
Tensor nonzero(const Tensor& x);

// Returns the elements where the mask is true, [n] row by row, of both broadcast to each other
// (torch.masked_select).  The host reads the mask, and so waits.  Throws DeviceError KB-F001 for
// shapes that do not broadcast, KB-F002 for a mask that is not of bool, KB-F003 where x is cut.
Tensor masked_select(const Tensor& x, const Tensor& mask);

// Return the elements in reverse along dimensions; `shift` places further on along one, where those
// at the end come first; and each `repeats` times (torch.flip, roll, repeat_interleave).  Without a
// dimension x counts as flat: roll() restores its shape, repeat_interleave() returns [n].  The
// dimension must not be cut.  KB-F001, also for a dimension named twice, KB-F003.
Tensor flip(const Tensor& x, const std::vector<int>& dims);
Tensor roll(const Tensor& x, std::int64_t shift, std::optional<int> dim = {});
Tensor repeat_interleave(const Tensor& x, std::int64_t repeats, std::optional<int> dim = {});

// Returns 1 at the class of each element along a new last dimension, and 0 elsewhere: i64, or f32
// of classes in f32.
// num_classes = -1 stands for the largest class + 1 (torch.nn.functional.one_hot).  KB-F001.
Tensor one_hot(const Tensor& classes, std::int64_t num_classes = -1);

// Returns the lower, the upper triangle of each matrix of the last two dimensions, with 0
// elsewhere: columns up to row + diagonal, or from there on.  KB-F001, KB-F003.
Tensor tril(const Tensor& x, std::int64_t diagonal = 0);
Tensor triu(const Tensor& x, std::int64_t diagonal = 0);

// Returns the k largest, or smallest, elements along a dimension that is not cut, in descending, or
// ascending, order, and their indices (torch.topk).  Equal elements keep their order; NaN is larger
// than any number.  One kernel finds all.  KB-F001, KB-F003.
std::pair<Tensor, Tensor> topk(const Tensor& x, std::int64_t k, int dim = -1, bool largest = true);

// Operators read indices by this, row by row; they are zeros in a run without values.
std::vector<std::int64_t> read_indices(const Tensor& index);
// Throws DeviceError KB-F001 for one that is out of range of a dimension of this size.
std::vector<std::int64_t> checked_indices(std::string_view name, const Tensor& index,
                                          std::size_t dimension, std::int64_t size);

namespace nn::functional {
using kernbench::one_hot;
}

}  // namespace kernbench
