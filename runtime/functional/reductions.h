// Reductions over any dimensions (ADR-0207), in f32 with one rounding to the type of x; of integers
// exactly.
//
// Of a placement that is cut along a reduced dimension, or partial, sums and means are partial:
// each holder has a summand.  The others need those elements together (KB-F003).

#pragma once

#include <concepts>
#include <utility>

#include "runtime/tensor/tensor.h"
#include "runtime/tensor/tensor_options.h"

namespace kernbench {

// Without dimensions all are reduced.  Throw DeviceError KB-F001 for a dimension that there is not,
// or that is named twice.  The sum of integers and of bool is i64; their mean is refused (KB-F002).
Tensor sum(const Tensor& x, const Dimensions& dims = {}, bool keepdim = false);
Tensor mean(const Tensor& x, const Dimensions& dims = {}, bool keepdim = false);
// The largest and the smallest.  Elements that are equal share the gradient evenly.
Tensor amax(const Tensor& x, const Dimensions& dims = {}, bool keepdim = false);
Tensor amin(const Tensor& x, const Dimensions& dims = {}, bool keepdim = false);
// Whether any element, or each, is not 0: bool.
Tensor any(const Tensor& x, const Dimensions& dims = {}, bool keepdim = false);
Tensor all(const Tensor& x, const Dimensions& dims = {}, bool keepdim = false);
Tensor max(const Tensor& x);  // amax over all dimensions
Tensor min(const Tensor& x);
// sqrt(sum(x^2)) for p = 2; sum(|x|) for 1; amax(|x|) for infinity.  KB-F001 for other p.  Where
// all of x is 0, the gradient of the 2-norm is 0, as torch's.
Tensor norm(const Tensor& x, double p = 2, const Dimensions& dims = {}, bool keepdim = false);

// The variance, with the number of elements less one as its divisor if it is `unbiased`, and its
// root, whose gradient is 0 where it is 0, as torch's.  The shape is x's without the reduced
// dimensions, or with size 1 there if `keepdim`.  Several kernels each.  Throw DeviceError KB-F001
// for a dimension that there is not, KB-F002 for integers, KB-F003 where a reduced one is cut.
Tensor var(const Tensor& x, const Dimensions& dims = {}, bool unbiased = true,
           bool keepdim = false);
Tensor std(const Tensor& x, const Dimensions& dims = {}, bool unbiased = true,
           bool keepdim = false);
Tensor var(const Tensor& x, std::same_as<bool> auto unbiased) {
  return var(x, Dimensions(), unbiased);
}
Tensor std(const Tensor& x, std::same_as<bool> auto unbiased) {
  return std(x, Dimensions(), unbiased);
}
// The product of all elements, with shape {}, or of those along a dimension: of integers in i64,
// and 1 of none.  KB-F001, KB-F003.
Tensor prod(const Tensor& x);
Tensor prod(const Tensor& x, int dim, bool keepdim = false);
// log(sum(exp(x))) without overflow, with the shape and the errors of var().
Tensor logsumexp(const Tensor& x, const Dimensions& dims, bool keepdim = false);

// The index of the largest element along a dimension, of the first if several are equal: i64.  The
// dimension must be whole on each PE (KB-F003), and its elements fit scratch.
Tensor argmax(const Tensor& x, int dim, bool keepdim = false);
Tensor argmin(const Tensor& x, int dim, bool keepdim = false);
Tensor argmin(const Tensor& x);
// The largest, the smallest of each row along a dimension, and its index; of equal ones the first.
// The gradient flows to it alone.
std::pair<Tensor, Tensor> max(const Tensor& x, int dim, bool keepdim = false);
std::pair<Tensor, Tensor> min(const Tensor& x, int dim, bool keepdim = false);
Tensor argmax(const Tensor& x);  // among all elements, row by row

// The elements along a dimension in ascending or descending order, and their indices (i64); equal
// ones stay in their order, and NaN counts as the largest (torch.sort, stable).  The dimension must
// be whole on each PE (KB-F003).  Its elements are compared each with each.
std::pair<Tensor, Tensor> sort(const Tensor& x, int dim = -1, bool descending = false);
Tensor argsort(const Tensor& x, int dim = -1, bool descending = false);

// The element that comes in the middle along a dimension, the lower of two, and its index; NaN if
// there is one.  Without a dimension among all elements, NaN of none; gradients flow to the first
// of equal ones, where torch spreads them (torch.median).  It is found by sort().
Tensor median(const Tensor& x);
std::pair<Tensor, Tensor> median(const Tensor& x, int dim, bool keepdim = false);

// The sums of the elements up to each, along a dimension that is whole on each PE (KB-F003); i64 of
// integers.
Tensor cumsum(const Tensor& x, int dim);

namespace nn::functional {

// log(softmax(x)) along a dimension, as x - max - log(sum(exp(x - max))).
Tensor log_softmax(const Tensor& x, int dim);

}  // namespace nn::functional

using nn::functional::log_softmax;  // torch::log_softmax

}  // namespace kernbench
