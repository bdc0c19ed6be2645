// The methods of Tensor that are operators.

#include <fmt/format.h>

#include <vector>

#include "runtime/functional/functional.h"
#include "runtime/ops/placement.h"
#include "runtime/tensor/strided_view.h"
#include "runtime/tensor/tensor_storage.h"

namespace kernbench {

std::int64_t Tensor::size(int dim) const {
  return shape()[ops::wrap_dimension("size", *this, dim)];
}

Tensor Tensor::add(const Tensor& other, double alpha) const {
  return kernbench::add(*this, other, alpha);
}
Tensor Tensor::add(const Scalar& number) const {
  return *this + number;
}
Tensor Tensor::sub(const Tensor& other, double alpha) const {
  return kernbench::sub(*this, other, alpha);
}
Tensor Tensor::sub(const Scalar& number) const {
  return *this - number;
}
Tensor Tensor::mul(const Tensor& other) const {
  return *this * other;
}
Tensor Tensor::mul(const Scalar& number) const {
  return *this * number;
}
Tensor Tensor::div(const Tensor& other) const {
  return *this / other;
}
Tensor Tensor::div(const Scalar& number) const {
  return *this / number;
}
Tensor Tensor::neg() const {
  return -*this;
}
Tensor Tensor::exp() const {
  return kernbench::exp(*this);
}
Tensor Tensor::log() const {
  return kernbench::log(*this);
}
Tensor Tensor::sqrt() const {
  return kernbench::sqrt(*this);
}
Tensor Tensor::rsqrt() const {
  return kernbench::rsqrt(*this);
}
Tensor Tensor::abs() const {
  return kernbench::abs(*this);
}
Tensor Tensor::square() const {
  return kernbench::square(*this);
}
Tensor Tensor::reciprocal() const {
  return kernbench::reciprocal(*this);
}
Tensor Tensor::pow(const Scalar& exponent) const {
  return kernbench::pow(*this, exponent);
}
Tensor Tensor::clamp(const Scalar& min, const Scalar& max) const {
  return kernbench::clamp(*this, min, max);
}
Tensor Tensor::relu() const {
  return kernbench::relu(*this);
}
Tensor Tensor::sigmoid() const {
  return kernbench::sigmoid(*this);
}
Tensor Tensor::tanh() const {
  return kernbench::tanh(*this);
}
Tensor Tensor::softmax(int dim) const {
  return nn::functional::softmax(*this, dim);
}
Tensor Tensor::log_softmax(int dim) const {
  return nn::functional::log_softmax(*this, dim);
}
Tensor Tensor::masked_fill(const Tensor& mask, const Scalar& value) const {
  return kernbench::masked_fill(*this, mask, value);
}
Tensor Tensor::sum(const Dimensions& dims, bool keepdim) const {
  return kernbench::sum(*this, dims, keepdim);
}
Tensor Tensor::mean(const Dimensions& dims, bool keepdim) const {
  return kernbench::mean(*this, dims, keepdim);
}
Tensor Tensor::amax(const Dimensions& dims, bool keepdim) const {
  return kernbench::amax(*this, dims, keepdim);
}
Tensor Tensor::amin(const Dimensions& dims, bool keepdim) const {
  return kernbench::amin(*this, dims, keepdim);
}
Tensor Tensor::max() const {
  return kernbench::max(*this);
}
Tensor Tensor::min() const {
  return kernbench::min(*this);
}
Tensor Tensor::norm(double p, const Dimensions& dims, bool keepdim) const {
  return kernbench::norm(*this, p, dims, keepdim);
}
Tensor Tensor::argmax() const {
  return kernbench::argmax(*this);
}
Tensor Tensor::argmax(int dim, bool keepdim) const {
  return kernbench::argmax(*this, dim, keepdim);
}
Tensor Tensor::cumsum(int dim) const {
  return kernbench::cumsum(*this, dim);
}
Tensor Tensor::any(const Dimensions& dims, bool keepdim) const {
  return kernbench::any(*this, dims, keepdim);
}
Tensor Tensor::all(const Dimensions& dims, bool keepdim) const {
  return kernbench::all(*this, dims, keepdim);
}
std::pair<Tensor, Tensor> Tensor::sort(int dim, bool descending) const {
  return kernbench::sort(*this, dim, descending);
}
Tensor Tensor::argsort(int dim, bool descending) const {
  return kernbench::argsort(*this, dim, descending);
}
std::pair<Tensor, Tensor> Tensor::topk(std::int64_t k, int dim, bool largest) const {
  return kernbench::topk(*this, k, dim, largest);
}
Tensor Tensor::index_select(int dim, const Tensor& index) const {
  return kernbench::index_select(*this, dim, index);
}
Tensor Tensor::gather(int dim, const Tensor& index) const {
  return kernbench::gather(*this, dim, index);
}
Tensor Tensor::scatter(int dim, const Tensor& index, const Tensor& src) const {
  return kernbench::scatter(*this, dim, index, src);
}
Tensor Tensor::scatter(int dim, const Tensor& index, const Scalar& value) const {
  return kernbench::scatter(*this, dim, index, value);
}
Tensor Tensor::scatter_add(int dim, const Tensor& index, const Tensor& src) const {
  return kernbench::scatter_add(*this, dim, index, src);
}
Tensor Tensor::eq(const Tensor& other) const {
  return *this == other;
}
Tensor Tensor::eq(const Scalar& number) const {
  return *this == number;
}
Tensor Tensor::ne(const Tensor& other) const {
  return *this != other;
}
Tensor Tensor::ne(const Scalar& number) const {
  return *this != number;
}
Tensor Tensor::logical_not() const {
  return kernbench::logical_not(*this);
}
Tensor Tensor::matmul(const Tensor& other) const {
  return kernbench::matmul(*this, other);
}
Tensor Tensor::reshape(std::initializer_list<std::int64_t> sizes) const {
  return kernbench::reshape(*this, sizes);
}
Tensor Tensor::view(std::initializer_list<std::int64_t> sizes) const {
  return kernbench::view(*this, sizes);
}
Tensor Tensor::view_as(const Tensor& other) const {
  return kernbench::view(*this, other.shape());
}
Tensor Tensor::flatten(int start_dim, int end_dim) const {
  return kernbench::flatten(*this, start_dim, end_dim);
}

Tensor Tensor::unsqueeze(int dim) const {
  return kernbench::unsqueeze(*this, dim);
}
Tensor Tensor::squeeze(int dim) const {
  return kernbench::squeeze(*this, dim);
}
Tensor Tensor::transpose(int dim0, int dim1) const {
  return kernbench::transpose(*this, dim0, dim1);
}

Tensor Tensor::t() const {
  if (shape().rank() > 2) {
    ops::refuse_shapes("t", fmt::format("t() expects a tensor with <= 2 dimensions, but self is "
                                        "{}D",
                                        shape().rank()));
  }
  return shape().rank() < 2 ? *this : kernbench::transpose(*this, 0, 1);
}

Tensor Tensor::permute(const std::vector<int>& dims) const {
  return kernbench::permute(*this, dims);
}
Tensor Tensor::expand(const std::vector<std::int64_t>& sizes) const {
  return kernbench::expand(*this, sizes);
}
Tensor Tensor::expand_as(const Tensor& other) const {
  return kernbench::expand(*this, {other.shape().begin(), other.shape().end()});
}
Tensor Tensor::slice(int dim, std::int64_t start, std::int64_t end, std::int64_t step) const {
  return kernbench::slice(*this, dim, start, end, step);
}
Tensor Tensor::select(int dim, std::int64_t index) const {
  return kernbench::select(*this, dim, index);
}
std::vector<Tensor> Tensor::split(std::int64_t split_size, int dim) const {
  return kernbench::split(*this, split_size, dim);
}
std::vector<Tensor> Tensor::split(const std::vector<std::int64_t>& sizes, int dim) const {
  return kernbench::split(*this, sizes, dim);
}
std::vector<Tensor> Tensor::chunk(std::int64_t chunks, int dim) const {
  return kernbench::chunk(*this, chunks, dim);
}
std::vector<Tensor> Tensor::unbind(int dim) const {
  return kernbench::unbind(*this, dim);
}
Tensor Tensor::contiguous() const {
  return kernbench::contiguous(*this);
}
bool Tensor::is_contiguous() const {
  return !runtime::is_strided(*this);
}
bool Tensor::is_alias_of(const Tensor& other) const {
  const Storage& own = *storage();
  const Storage& its = *other.storage();
  return own.is_host() ? own.host == its.host : own.memory == its.memory;
}
Tensor Tensor::narrow(int dim, std::int64_t start, std::int64_t length) const {
  return kernbench::narrow(*this, dim, start, length);
}
Tensor Tensor::clone() const {
  return kernbench::clone(*this);
}
Tensor Tensor::to(DType dtype) const {
  return kernbench::to(*this, dtype);
}

Tensor Tensor::redistribute(const DPPolicy& dp) const {
  return kernbench::redistribute(*this, dp);
}

}  // namespace kernbench
