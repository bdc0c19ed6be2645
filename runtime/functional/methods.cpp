// The methods of Tensor that are operators.

#include <fmt/format.h>

#include <vector>

#include "runtime/functional/functional.h"
#include "runtime/ops/placement.h"

namespace kernbench {

std::int64_t Tensor::size(int dim) const {
  return shape()[ops::dimension_of("size", *this, dim)];
}

Tensor Tensor::add(const Tensor& other, double alpha) const {
  return kernbench::add(*this, other, alpha);
}
Tensor Tensor::add(double number) const {
  return *this + number;
}
Tensor Tensor::sub(const Tensor& other, double alpha) const {
  return kernbench::sub(*this, other, alpha);
}
Tensor Tensor::sub(double number) const {
  return *this - number;
}
Tensor Tensor::mul(const Tensor& other) const {
  return *this * other;
}
Tensor Tensor::mul(double number) const {
  return *this * number;
}
Tensor Tensor::div(const Tensor& other) const {
  return *this / other;
}
Tensor Tensor::div(double number) const {
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
Tensor Tensor::pow(double exponent) const {
  return kernbench::pow(*this, exponent);
}
Tensor Tensor::clamp(double min, double max) const {
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
Tensor Tensor::masked_fill(const Tensor& mask, double value) const {
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
Tensor Tensor::matmul(const Tensor& other) const {
  return kernbench::matmul(*this, other);
}
Tensor Tensor::reshape(std::initializer_list<std::int64_t> sizes) const {
  return kernbench::reshape(*this, sizes);
}
Tensor Tensor::view(std::initializer_list<std::int64_t> sizes) const {
  return kernbench::reshape(*this, sizes);
}
Tensor Tensor::view_as(const Tensor& other) const {
  return kernbench::reshape(*this, other.shape());
}
Tensor Tensor::flatten() const {
  return kernbench::reshape(*this, {numel()});
}

Tensor Tensor::unsqueeze(int dim) const {
  const auto rank = static_cast<int>(shape().rank());
  if (dim < -rank - 1 || dim > rank) {
    ops::refuse_shapes("unsqueeze", fmt::format("Dimension out of range (expected to be in range "
                                                "of [{}, {}], but got {})",
                                                -rank - 1, rank, dim));
  }
  std::vector<std::int64_t> sizes(shape().begin(), shape().end());
  sizes.insert(sizes.begin() + (dim < 0 ? dim + rank + 1 : dim), 1);
  return kernbench::reshape(*this, Shape(sizes));
}

Tensor Tensor::squeeze(int dim) const {
  const std::size_t dimension = ops::dimension_of("squeeze", *this, dim);
  std::vector<std::int64_t> sizes(shape().begin(), shape().end());
  if (sizes[dimension] != 1) return *this;
  sizes.erase(sizes.begin() + static_cast<std::ptrdiff_t>(dimension));
  return kernbench::reshape(*this, Shape(sizes));
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

Tensor Tensor::narrow(int dim, std::int64_t start, std::int64_t length) const {
  return kernbench::narrow(*this, dim, start, length);
}
Tensor Tensor::clone() const {
  return kernbench::clone(*this);
}
Tensor Tensor::to(DType dtype) const {
  return kernbench::to(*this, dtype);
}

}  // namespace kernbench
