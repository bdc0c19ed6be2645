// torch's operators on tensors: elementwise ones, reductions and matrix products.

#pragma once

#include <concepts>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/tensor/tensor.h"
#include "runtime/tensor/tensor_options.h"

namespace kernbench {

// Elementwise operators, with PyTorch's names.  Each launches a kernel on every PE that holds a
// part, in forward and in backward (ADR-0207).  Elements are computed in f32 and rounded once to
// the result's type, or exactly if all are integers.
//
// Types are promoted as in torch (ADR-0243): bool, i32, i64, floating point; f16 beside f32 gives
// f32; the 8-bit types are only converted (KB-F002).  Operands have the same holders (KB-F003);
// ADR-0131 has the rules for placements.  Shapes broadcast as in torch (KB-F001).  An operand that
// repeats along a dimension that is cut is replicated.  Only functions that are linear take partial
// tensors.
//
// A number does not change the type of a tensor of its category: x + 1 and x + 0.5 of f16 are f16,
// and of i64 they are i64 and f32.  It is an f32 whatever the type of its tensor, as in torch, so
// that 1e-8 does not become 0 beside an f16 tensor.

// a + b and a - b: both lie the same way, which may be partial.
Tensor operator+(const Tensor& a, const Tensor& b);
Tensor operator-(const Tensor& a, const Tensor& b);
// a b: both lie the same way, or one is partial and the other replicated.
Tensor operator*(const Tensor& a, const Tensor& b);
// a / b: both lie the same way, or a is partial and b replicated.  The quotient of integers is f32.
Tensor operator/(const Tensor& a, const Tensor& b);
Tensor operator-(const Tensor& x);  // x may be partial

// These take a number.  x may be partial in x * number and x / number.
Tensor operator+(const Tensor& x, const Scalar& number);
Tensor operator+(const Scalar& number, const Tensor& x);
Tensor operator-(const Tensor& x, const Scalar& number);
Tensor operator-(const Scalar& number, const Tensor& x);
Tensor operator*(const Tensor& x, const Scalar& number);
Tensor operator*(const Scalar& number, const Tensor& x);
Tensor operator/(const Tensor& x, const Scalar& number);
Tensor operator/(const Scalar& number, const Tensor& x);

// a + alpha b and a - alpha b, with one rounding (torch.add, torch.sub).
Tensor add(const Tensor& a, const Tensor& b, double alpha = 1);
Tensor sub(const Tensor& a, const Tensor& b, double alpha = 1);
Tensor add(const Tensor& x, const Scalar& number);
Tensor sub(const Tensor& x, const Scalar& number);
Tensor mul(const Tensor& a, const Tensor& b);
Tensor mul(const Tensor& x, const Scalar& number);
Tensor div(const Tensor& a, const Tensor& b);
Tensor div(const Tensor& x, const Scalar& number);

// Comparisons: bool.  No gradient flows through them.
Tensor operator==(const Tensor& a, const Tensor& b);
Tensor operator!=(const Tensor& a, const Tensor& b);
Tensor operator<(const Tensor& a, const Tensor& b);
Tensor operator<=(const Tensor& a, const Tensor& b);
Tensor operator>(const Tensor& a, const Tensor& b);
Tensor operator>=(const Tensor& a, const Tensor& b);
Tensor operator==(const Tensor& x, const Scalar& number);
Tensor operator!=(const Tensor& x, const Scalar& number);
Tensor operator<(const Tensor& x, const Scalar& number);
Tensor operator<=(const Tensor& x, const Scalar& number);
Tensor operator>(const Tensor& x, const Scalar& number);
Tensor operator>=(const Tensor& x, const Scalar& number);
inline Tensor operator==(const Scalar& number, const Tensor& x) {
  return x == number;
}
inline Tensor operator!=(const Scalar& number, const Tensor& x) {
  return x != number;
}
inline Tensor operator<(const Scalar& number, const Tensor& x) {
  return x > number;
}
inline Tensor operator<=(const Scalar& number, const Tensor& x) {
  return x >= number;
}
inline Tensor operator>(const Scalar& number, const Tensor& x) {
  return x < number;
}
inline Tensor operator>=(const Scalar& number, const Tensor& x) {
  return x <= number;
}

// Bits of integers, and of bool "and", "or", "exclusive or", "not".  KB-F002 for other types.
Tensor operator&(const Tensor& a, const Tensor& b);
Tensor operator|(const Tensor& a, const Tensor& b);
Tensor operator^(const Tensor& a, const Tensor& b);
Tensor operator&(const Tensor& x, const Scalar& number);
Tensor operator|(const Tensor& x, const Scalar& number);
Tensor operator^(const Tensor& x, const Scalar& number);
Tensor operator~(const Tensor& x);
// True where both, one at least, or just one of two elements are not 0.  The result is bool.
Tensor logical_and(const Tensor& a, const Tensor& b);
Tensor logical_or(const Tensor& a, const Tensor& b);
Tensor logical_xor(const Tensor& a, const Tensor& b);

// The larger, or the smaller, of each two elements.  Two equal elements get half of the gradient
// each.
Tensor maximum(const Tensor& a, const Tensor& b);
Tensor minimum(const Tensor& a, const Tensor& b);
inline Tensor max(const Tensor& a, const Tensor& b) {
  return maximum(a, b);
}
inline Tensor min(const Tensor& a, const Tensor& b) {
  return minimum(a, b);
}

// a where the mask is true, else b.  KB-F002, in torch's words, for a mask not of bool or u8.
Tensor where(const Tensor& mask, const Tensor& a, const Tensor& b);
Tensor where(const Tensor& mask, const Tensor& a, const Scalar& b);
Tensor where(const Tensor& mask, const Scalar& a, const Tensor& b);
// i64 of whole numbers, f32 of others.
Tensor where(const Tensor& mask, const Scalar& a, const Scalar& b);
// x, but `value` where the mask, of any type, is not 0.
Tensor masked_fill(const Tensor& x, const Tensor& mask, const Scalar& value);

// min where x is below it, max where x is above it.  The gradient at a limit is that of x.
Tensor clamp(const Tensor& x, const Scalar& min = -std::numeric_limits<double>::infinity(),
             const Scalar& max = std::numeric_limits<double>::infinity());

// exp(x), sin(x), floor(x), isnan(x), ...
#define KERNBENCH_FUNCTION(name) Tensor name(const Tensor& x);
#include "runtime/tensor/functions.def"

// x to the power of a number.  Whole exponents up to 64 are products; 0.5 and -0.5 are roots;
// others are exp(exponent log(x)), whose relative error is about |exponent log(x)| 2^-24.
Tensor pow(const Tensor& x, const Scalar& exponent);
// As exp(exponent log(|x|)), with the special values of std::pow: NaN where x is negative and the
// exponent is not whole.  KB-F002 if both are integers; 2 to the power of integers is f32.
Tensor pow(const Tensor& x, const Tensor& exponent);
Tensor pow(const Scalar& base, const Tensor& exponent);

Tensor hypot(const Tensor& a, const Tensor& b);
// start + weight (end - start); x + value a b; x + value a / b, which is refused of integers.
Tensor lerp(const Tensor& start, const Tensor& end, double weight);
Tensor addcmul(const Tensor& x, const Tensor& a, const Tensor& b, const Scalar& value = 1);
Tensor addcdiv(const Tensor& x, const Tensor& a, const Tensor& b, const Scalar& value = 1);

// a / b rounded down, and what it leaves, with the sign of b: the two operators of Python, of which
// C++ has % alone.  fmod() returns what rounding towards zero leaves, with the sign of a.  Integers
// divided by 0 give -1, and leave themselves (RISC-V); torch refuses that on a CPU alone.
Tensor floor_divide(const Tensor& a, const Tensor& b);
Tensor floor_divide(const Tensor& x, const Scalar& number);
Tensor remainder(const Tensor& a, const Tensor& b);
Tensor remainder(const Tensor& x, const Scalar& number);
Tensor fmod(const Tensor& a, const Tensor& b);
Tensor fmod(const Tensor& x, const Scalar& number);
inline Tensor operator%(const Tensor& a, const Tensor& b) {
  return remainder(a, b);
}
inline Tensor operator%(const Tensor& x, const Scalar& number) {
  return remainder(x, number);
}

// Returns a copy of x in memory of its own (torch.clone).
Tensor clone(const Tensor& x);
// Converts x to another type; x itself if it has that type (torch's x.to(dtype)).  To integers,
// numbers are rounded towards zero, and what is too large becomes the largest there is (as on
// torch's devices; NaN becomes 0); to f8e4m3fn, which has no infinity, it becomes NaN.
Tensor to(const Tensor& x, DType dtype);

// True if the tensors have one shape and the same elements (torch.equal); if each element of a is
// within atol + rtol |b| of b's, in f32 (torch.allclose).  Host reads.
bool equal(const Tensor& a, const Tensor& b);
bool allclose(const Tensor& a, const Tensor& b, double rtol = 1e-5, double atol = 1e-8);

// Reductions over any dimensions (ADR-0207), in f32 with one rounding to the type of x; of integers
// exactly.
//
// Where x is partial, or cut along a reduced dimension, sums and means are partial: each holder has
// a summand.  The others need those elements together (KB-F003).

// All dimensions are reduced if none are given.  These throw DeviceError KB-F001 for a dimension
// that there is not, or that is named twice.  The sum of integers and of bool is i64; their mean is
// refused (KB-F002).
Tensor sum(const Tensor& x, const Dimensions& dims = {}, bool keepdim = false);
Tensor mean(const Tensor& x, const Dimensions& dims = {}, bool keepdim = false);
// The largest and the smallest.  Elements that are equal share the gradient evenly.
Tensor amax(const Tensor& x, const Dimensions& dims = {}, bool keepdim = false);
Tensor amin(const Tensor& x, const Dimensions& dims = {}, bool keepdim = false);
// True, as a bool, if any element, or each one, is not 0.
Tensor any(const Tensor& x, const Dimensions& dims = {}, bool keepdim = false);
Tensor all(const Tensor& x, const Dimensions& dims = {}, bool keepdim = false);
Tensor max(const Tensor& x);  // amax over all dimensions
Tensor min(const Tensor& x);
// sqrt(sum(x^2)) for p = 2; sum(|x|) for 1; amax(|x|) for infinity and amin(|x|) for -infinity; the
// number of elements that are not 0 for 0; else the p-th root of sum(|x|^p), by several kernels.
// Where all of x is 0, the gradient is 0, as torch's.
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

// Matrix products.

struct MatmulOptions {
  bool transpose_a = false;  // exchange the last two dimensions of a
  bool transpose_b = false;
  double alpha = 1;  // factor of the product, applied in f32 (torch.addmm, torch.baddbmm)
};

// Returns alpha a b, summed in f32 with one rounding to the operands' type:
//   [..., m, k] x [k, n] -> [..., m, n]; with transpose_a only of two dimensions
//   [..., m, k] x [..., k, n] -> [..., m, n]; the sizes in front broadcast, as views of either
//   a vector [k] counts as one row of a, or one column of b, which the result has not
//
// Each PE multiplies its own parts.  On each level of the placement:
//   replicate x replicate -> replicate      k cut on both        -> partial
//   rows of a cut         -> rows cut       columns of b cut     -> columns cut
//   batch cut on both     -> batch cut      partial x replicate  -> partial, and the reverse
//   batch cut on one, beside an operand that repeats along it -> batch cut
// Throws DeviceError KB-F001, KB-F002; KB-F003 for other placements.
Tensor matmul(const Tensor& a, const Tensor& b, const MatmulOptions& options = {});

// Returns alpha a b + input in one kernel, with one rounding.  `input` is [n] and is added to each
// row (torch.addmm), or undefined.  Placements are those of matmul(); the input is split as the
// columns are, else replicated, and partial where the product is.  Throws as matmul().
Tensor addmm(const Tensor& input, const Tensor& a, const Tensor& b,
             const MatmulOptions& options = {});

struct ScaledMmOptions {
  double scale_a = 1;  // of all elements of a: numbers of the host, torch's are tensors
  double scale_b = 1;
  Tensor bias = {};  // [n] of out_dtype, or undefined
  DType out_dtype = DType::bf16;
};

// Returns scale_a scale_b a b + bias of matrices [m, k] and [k, n] of f8e4m3fn or f8e5m2, summed in
// f32 with one rounding to `out_dtype` (torch._scaled_mm; a scale for each row or block is left
// out).  PE_GEMM takes pe.gemm.f8_per_cell products at a time.  Placements are those of addmm().
// It has no derivative, as in torch.  Throws DeviceError KB-F001; KB-F002 for other types, two
// factors of f8e5m2, or operands that require gradients; KB-F003 for other placements.
Tensor scaled_mm(const Tensor& a, const Tensor& b, const ScaledMmOptions& options = {});

// matmul() of matrices, of stacks of as many matrices, of a matrix and a vector, and of vectors
// (torch.mm, torch.bmm, torch.mv, torch.dot).  KB-F001.
Tensor mm(const Tensor& a, const Tensor& b);
Tensor bmm(const Tensor& a, const Tensor& b);
Tensor mv(const Tensor& a, const Tensor& b);
Tensor dot(const Tensor& a, const Tensor& b);
// The sum of the operands' products over the dimensions whose letters the result has not, as in
// einsum("bhid,bhjd->bhij", {q, k}) (torch.einsum).  "..." stands for further dimensions, which
// broadcast; without "->" the result has the letters that stand once, in their order.  Operands are
// multiplied from left to right: by one matmul() if there is something to sum over, else by an
// elementwise product.  Throws DeviceError KB-F001 in torch's words, KB-F002, KB-F003.
Tensor einsum(std::string_view equation, const std::vector<Tensor>& operands);
// a[i] b[j] for vectors (torch.outer).  KB-F001.
Tensor outer(const Tensor& a, const Tensor& b);

}  // namespace kernbench
