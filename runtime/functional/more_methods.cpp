// The methods of Tensor that are shorthands of operators: torch has both.

#include <limits>
#include <utility>
#include <vector>

#include "runtime/functional/functional.h"

namespace kernbench {

Tensor Tensor::pow(const Tensor& exponent) const {
  return kernbench::pow(*this, exponent);
}
Tensor Tensor::clamp_min(const Scalar& min) const {
  return clamp(min);
}
Tensor Tensor::clamp_max(const Scalar& max) const {
  return clamp(-std::numeric_limits<double>::infinity(), max);
}
Tensor Tensor::maximum(const Tensor& other) const {
  return kernbench::maximum(*this, other);
}
Tensor Tensor::minimum(const Tensor& other) const {
  return kernbench::minimum(*this, other);
}
std::pair<Tensor, Tensor> Tensor::max(int dim, bool keepdim) const {
  return kernbench::max(*this, dim, keepdim);
}
std::pair<Tensor, Tensor> Tensor::min(int dim, bool keepdim) const {
  return kernbench::min(*this, dim, keepdim);
}
Tensor Tensor::argmin() const {
  return kernbench::argmin(*this);
}
Tensor Tensor::argmin(int dim, bool keepdim) const {
  return kernbench::argmin(*this, dim, keepdim);
}
Tensor Tensor::lt(const Tensor& other) const {
  return *this < other;
}
Tensor Tensor::lt(const Scalar& number) const {
  return *this < number;
}
Tensor Tensor::le(const Tensor& other) const {
  return *this <= other;
}
Tensor Tensor::le(const Scalar& number) const {
  return *this <= number;
}
Tensor Tensor::gt(const Tensor& other) const {
  return *this > other;
}
Tensor Tensor::gt(const Scalar& number) const {
  return *this > number;
}
Tensor Tensor::ge(const Tensor& other) const {
  return *this >= other;
}
Tensor Tensor::ge(const Scalar& number) const {
  return *this >= number;
}
Tensor Tensor::logical_and(const Tensor& other) const {
  return kernbench::logical_and(*this, other);
}
Tensor Tensor::logical_or(const Tensor& other) const {
  return kernbench::logical_or(*this, other);
}
bool Tensor::equal(const Tensor& other) const {
  return kernbench::equal(*this, other);
}
bool Tensor::allclose(const Tensor& other, double rtol, double atol) const {
  return kernbench::allclose(*this, other, rtol, atol);
}
Tensor Tensor::mm(const Tensor& other) const {
  return kernbench::mm(*this, other);
}
Tensor Tensor::bmm(const Tensor& other) const {
  return kernbench::bmm(*this, other);
}
Tensor Tensor::nonzero() const {
  return kernbench::nonzero(*this);
}
Tensor Tensor::tril(std::int64_t diagonal) const {
  return kernbench::tril(*this, diagonal);
}
Tensor Tensor::triu(std::int64_t diagonal) const {
  return kernbench::triu(*this, diagonal);
}
Tensor Tensor::reshape(std::int64_t size) const {
  return kernbench::reshape(*this, {size});
}
Tensor Tensor::view(std::int64_t size) const {
  return kernbench::view(*this, {size});
}
Tensor Tensor::repeat(const std::vector<std::int64_t>& times) const {
  return kernbench::repeat(*this, times);
}
Tensor Tensor::squeeze() const {
  return kernbench::squeeze(*this);
}
Tensor Tensor::mT() const {
  return kernbench::transpose(*this, -2, -1);
}
const Tensor& Tensor::masked_fill_(const Tensor& mask, const Scalar& value) const {
  Tensor(*this).copy_(masked_fill(mask, value));
  return *this;
}

}  // namespace kernbench
