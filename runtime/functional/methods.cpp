// The methods of Tensor that are operators, x.exp() for exp(x): torch has both.

#include <fmt/format.h>

#include <limits>
#include <utility>
#include <vector>

#include "runtime/functional/functional.h"
#include "runtime/ops/placement.h"
#include "runtime/tensor/strided_view.h"
#include "runtime/tensor/tensor_storage.h"

namespace kernbench {

std::int64_t Tensor::size(int dim) const {
  return shape()[ops::wrap_dimension("size", *this, dim)];
}
std::int64_t Tensor::stride(int dim) const {
  return stride()[ops::wrap_dimension("stride", *this, dim)];
}

// A method that is the function of its name, with the tensor in front of its own arguments.
#define KERNBENCH_METHOD(Result, name, parameters, ...)       \
  Result Tensor::name parameters const {                      \
    return kernbench::name(*this __VA_OPT__(, ) __VA_ARGS__); \
  }

#define KERNBENCH_FUNCTION(name) KERNBENCH_METHOD(Tensor, name, ())
#include "runtime/tensor/functions.def"

KERNBENCH_METHOD(Tensor, relu, ())
KERNBENCH_METHOD(Tensor, sigmoid, ())
KERNBENCH_METHOD(Tensor, tanh, ())
KERNBENCH_METHOD(Tensor, max, ())
KERNBENCH_METHOD(Tensor, min, ())
KERNBENCH_METHOD(Tensor, argmax, ())
KERNBENCH_METHOD(Tensor, contiguous, ())
KERNBENCH_METHOD(Tensor, clone, ())
KERNBENCH_METHOD(Tensor, argmin, ())
KERNBENCH_METHOD(Tensor, nonzero, ())
KERNBENCH_METHOD(Tensor, squeeze, ())
KERNBENCH_METHOD(Tensor, prod, ())
KERNBENCH_METHOD(Tensor, median, ())
KERNBENCH_METHOD(Tensor, bernoulli, ())

using TensorPair = std::pair<Tensor, Tensor>;
using Tensors = std::vector<Tensor>;

KERNBENCH_METHOD(Tensor, add, (const Tensor& other, double alpha), other, alpha)
KERNBENCH_METHOD(Tensor, add, (const Scalar& number), number)
KERNBENCH_METHOD(Tensor, sub, (const Tensor& other, double alpha), other, alpha)
KERNBENCH_METHOD(Tensor, sub, (const Scalar& number), number)
KERNBENCH_METHOD(Tensor, mul, (const Tensor& other), other)
KERNBENCH_METHOD(Tensor, mul, (const Scalar& number), number)
KERNBENCH_METHOD(Tensor, div, (const Tensor& other), other)
KERNBENCH_METHOD(Tensor, div, (const Scalar& number), number)
KERNBENCH_METHOD(Tensor, pow, (const Scalar& exponent), exponent)
KERNBENCH_METHOD(Tensor, pow, (const Tensor& exponent), exponent)
KERNBENCH_METHOD(Tensor, clamp, (const Scalar& min, const Scalar& max), min, max)
KERNBENCH_METHOD(Tensor, masked_fill, (const Tensor& mask, const Scalar& value), mask, value)
KERNBENCH_METHOD(Tensor, sum, (const Dimensions& dims, bool keepdim), dims, keepdim)
KERNBENCH_METHOD(Tensor, mean, (const Dimensions& dims, bool keepdim), dims, keepdim)
KERNBENCH_METHOD(Tensor, amax, (const Dimensions& dims, bool keepdim), dims, keepdim)
KERNBENCH_METHOD(Tensor, amin, (const Dimensions& dims, bool keepdim), dims, keepdim)
KERNBENCH_METHOD(Tensor, norm, (double p, const Dimensions& dims, bool keepdim), p, dims, keepdim)
KERNBENCH_METHOD(Tensor, argmax, (int dim, bool keepdim), dim, keepdim)
KERNBENCH_METHOD(Tensor, cumsum, (int dim), dim)
KERNBENCH_METHOD(Tensor, any, (const Dimensions& dims, bool keepdim), dims, keepdim)
KERNBENCH_METHOD(Tensor, all, (const Dimensions& dims, bool keepdim), dims, keepdim)
KERNBENCH_METHOD(TensorPair, sort, (int dim, bool descending), dim, descending)
KERNBENCH_METHOD(Tensor, argsort, (int dim, bool descending), dim, descending)
KERNBENCH_METHOD(TensorPair, topk, (std::int64_t k, int dim, bool largest), k, dim, largest)
KERNBENCH_METHOD(Tensor, index_select, (int dim, const Tensor& index), dim, index)
KERNBENCH_METHOD(Tensor, gather, (int dim, const Tensor& index), dim, index)
KERNBENCH_METHOD(Tensor, scatter, (int dim, const Tensor& index, const Tensor& src), dim, index,
                 src)
KERNBENCH_METHOD(Tensor, scatter, (int dim, const Tensor& index, const Scalar& value), dim, index,
                 value)
KERNBENCH_METHOD(Tensor, scatter_add, (int dim, const Tensor& index, const Tensor& src), dim, index,
                 src)
KERNBENCH_METHOD(Tensor, matmul, (const Tensor& other), other)
KERNBENCH_METHOD(Tensor, reshape, (std::initializer_list<std::int64_t> sizes), sizes)
KERNBENCH_METHOD(Tensor, view, (std::initializer_list<std::int64_t> sizes), sizes)
KERNBENCH_METHOD(Tensor, flatten, (int start_dim, int end_dim), start_dim, end_dim)
KERNBENCH_METHOD(Tensor, unsqueeze, (int dim), dim)
KERNBENCH_METHOD(Tensor, squeeze, (int dim), dim)
KERNBENCH_METHOD(Tensor, transpose, (int dim0, int dim1), dim0, dim1)
KERNBENCH_METHOD(Tensor, permute, (const std::vector<int>& dims), dims)
KERNBENCH_METHOD(Tensor, expand, (const std::vector<std::int64_t>& sizes), sizes)
KERNBENCH_METHOD(Tensor, slice, (int dim, std::int64_t start, std::int64_t end, std::int64_t step),
                 dim, start, end, step)
KERNBENCH_METHOD(Tensor, select, (int dim, std::int64_t index), dim, index)
KERNBENCH_METHOD(Tensors, split, (std::int64_t split_size, int dim), split_size, dim)
KERNBENCH_METHOD(Tensors, split, (const std::vector<std::int64_t>& sizes, int dim), sizes, dim)
KERNBENCH_METHOD(Tensors, chunk, (std::int64_t chunks, int dim), chunks, dim)
KERNBENCH_METHOD(Tensors, unbind, (int dim), dim)
KERNBENCH_METHOD(Tensor, narrow, (int dim, std::int64_t start, std::int64_t length), dim, start,
                 length)
KERNBENCH_METHOD(Tensor, to, (DType dtype), dtype)
KERNBENCH_METHOD(Tensor, redistribute, (const DPPolicy& dp), dp)
KERNBENCH_METHOD(Tensor, remainder, (const Tensor& other), other)
KERNBENCH_METHOD(Tensor, remainder, (const Scalar& number), number)
KERNBENCH_METHOD(Tensor, fmod, (const Tensor& other), other)
KERNBENCH_METHOD(Tensor, fmod, (const Scalar& number), number)
KERNBENCH_METHOD(Tensor, floor_divide, (const Tensor& other), other)
KERNBENCH_METHOD(Tensor, floor_divide, (const Scalar& number), number)
KERNBENCH_METHOD(Tensor, lerp, (const Tensor& end, double weight), end, weight)
KERNBENCH_METHOD(Tensor, addcmul, (const Tensor& a, const Tensor& b, const Scalar& value), a, b,
                 value)
KERNBENCH_METHOD(Tensor, addcdiv, (const Tensor& a, const Tensor& b, const Scalar& value), a, b,
                 value)
KERNBENCH_METHOD(Tensor, var, (const Dimensions& dims, bool unbiased, bool keepdim), dims, unbiased,
                 keepdim)
KERNBENCH_METHOD(Tensor, std, (const Dimensions& dims, bool unbiased, bool keepdim), dims, unbiased,
                 keepdim)
KERNBENCH_METHOD(Tensor, prod, (int dim, bool keepdim), dim, keepdim)
KERNBENCH_METHOD(Tensor, logsumexp, (const Dimensions& dims, bool keepdim), dims, keepdim)
KERNBENCH_METHOD(Tensor, maximum, (const Tensor& other), other)
KERNBENCH_METHOD(Tensor, minimum, (const Tensor& other), other)
KERNBENCH_METHOD(TensorPair, max, (int dim, bool keepdim), dim, keepdim)
KERNBENCH_METHOD(TensorPair, min, (int dim, bool keepdim), dim, keepdim)
KERNBENCH_METHOD(Tensor, argmin, (int dim, bool keepdim), dim, keepdim)
KERNBENCH_METHOD(Tensor, logical_and, (const Tensor& other), other)
KERNBENCH_METHOD(Tensor, logical_or, (const Tensor& other), other)
KERNBENCH_METHOD(Tensor, logical_xor, (const Tensor& other), other)
KERNBENCH_METHOD(bool, equal, (const Tensor& other), other)
KERNBENCH_METHOD(bool, allclose, (const Tensor& other, double rtol, double atol), other, rtol, atol)
KERNBENCH_METHOD(Tensor, mm, (const Tensor& other), other)
KERNBENCH_METHOD(Tensor, bmm, (const Tensor& other), other)
KERNBENCH_METHOD(Tensor, mv, (const Tensor& vector), vector)
KERNBENCH_METHOD(Tensor, dot, (const Tensor& other), other)
KERNBENCH_METHOD(Tensor, outer, (const Tensor& other), other)
KERNBENCH_METHOD(Tensor, masked_select, (const Tensor& mask), mask)
KERNBENCH_METHOD(Tensor, flip, (const std::vector<int>& dims), dims)
KERNBENCH_METHOD(Tensor, roll, (std::int64_t shift, std::optional<int> dim), shift, dim)
KERNBENCH_METHOD(Tensor, repeat_interleave, (std::int64_t repeats, std::optional<int> dim), repeats,
                 dim)
KERNBENCH_METHOD(Tensor, multinomial, (std::int64_t num_samples, bool replacement), num_samples,
                 replacement)
KERNBENCH_METHOD(TensorPair, median, (int dim, bool keepdim), dim, keepdim)
KERNBENCH_METHOD(Tensor, unfold, (int dim, std::int64_t size, std::int64_t step), dim, size, step)
KERNBENCH_METHOD(Tensor, unflatten, (int dim, const std::vector<std::int64_t>& sizes), dim, sizes)
KERNBENCH_METHOD(Tensor, tril, (std::int64_t diagonal), diagonal)
KERNBENCH_METHOD(Tensor, triu, (std::int64_t diagonal), diagonal)
KERNBENCH_METHOD(Tensor, repeat, (const std::vector<std::int64_t>& times), times)

#undef KERNBENCH_METHOD

#define KERNBENCH_COMPARISON(name, op)              \
  Tensor Tensor::name(const Tensor& other) const {  \
    return *this op other;                          \
  }                                                 \
  Tensor Tensor::name(const Scalar& number) const { \
    return *this op number;                         \
  }
KERNBENCH_COMPARISON(eq, ==)
KERNBENCH_COMPARISON(ne, !=)
KERNBENCH_COMPARISON(lt, <)
KERNBENCH_COMPARISON(le, <=)
KERNBENCH_COMPARISON(gt, >)
KERNBENCH_COMPARISON(ge, >=)
#undef KERNBENCH_COMPARISON

Tensor Tensor::softmax(int dim) const {
  return nn::functional::softmax(*this, dim);
}
Tensor Tensor::log_softmax(int dim) const {
  return nn::functional::log_softmax(*this, dim);
}
Tensor Tensor::clamp_min(const Scalar& min) const {
  return clamp(min);
}
Tensor Tensor::clamp_max(const Scalar& max) const {
  return clamp(-std::numeric_limits<double>::infinity(), max);
}
Tensor Tensor::reshape(std::int64_t size) const {
  return kernbench::reshape(*this, {size});
}
Tensor Tensor::view(std::int64_t size) const {
  return kernbench::view(*this, {size});
}
Tensor Tensor::view_as(const Tensor& other) const {
  return kernbench::view(*this, other.shape());
}
Tensor Tensor::expand_as(const Tensor& other) const {
  return kernbench::expand(*this, {other.shape().begin(), other.shape().end()});
}
Tensor Tensor::mT() const {
  return kernbench::transpose(*this, -2, -1);
}

Tensor Tensor::t() const {
  if (shape().rank() > 2) {
    ops::refuse_shapes("t", fmt::format("t() expects a tensor with <= 2 dimensions, but self is "
                                        "{}D",
                                        shape().rank()));
  }
  return shape().rank() < 2 ? *this : kernbench::transpose(*this, 0, 1);
}

bool Tensor::is_contiguous() const {
  return checked().is_host() || !runtime::is_strided(*this);
}
bool Tensor::is_alias_of(const Tensor& other) const {
  const Storage& own = checked();
  const Storage& its = other.checked();
  return own.is_host() ? own.host == its.host : own.memory == its.memory;
}

}  // namespace kernbench
