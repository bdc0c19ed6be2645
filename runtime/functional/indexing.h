// Operators whose indices are elements of a tensor: i64, as argmax gives them, or whole numbers of
// another type.
//
// The host reads them, and so waits for them: a kernel's addresses cannot depend on values.  In a
// run without values every index counts as 0.

#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/tensor/tensor.h"

namespace kernbench {

// Returns the elements of x with these indices, [n], along a dimension that is not cut
// (torch.index_select).  Throws DeviceError KB-F001 for an index that is out of range, KB-F003.
Tensor index_select(const Tensor& x, int dim, const Tensor& index);

// Returns x's element with each index along the dimension, at the same place along the others, in
// which `index` has at most x's sizes (torch.gather).  KB-F001, KB-F003.
Tensor gather(const Tensor& x, int dim, const Tensor& index);

// Returns x with src's elements at these indices along the dimension, at the same place along the
// others, in which `index` and src have x's sizes (torch.scatter); the last of several at one place
// stays.  scatter_add adds them to x's, in f32 or exactly.  KB-F001, KB-F002, KB-F003.
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
// ascending, order, and their indices (torch.topk).  Of equal elements the first comes first; NaN
// is larger than any number.  One kernel finds all.  KB-F001, KB-F003.
std::pair<Tensor, Tensor> topk(const Tensor& x, std::int64_t k, int dim = -1, bool largest = true);

// For operators: reads indices, row by row; zeros in a run without values.
std::vector<std::int64_t> read_indices(const Tensor& index);
// Throws DeviceError KB-F001 for one that is out of range of a dimension of this size.
std::vector<std::int64_t> checked_indices(std::string_view name, const Tensor& index,
                                          std::size_t dimension, std::int64_t size);

namespace nn::functional {
using kernbench::one_hot;
}

}  // namespace kernbench
