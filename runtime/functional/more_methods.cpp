// The methods of Tensor that are shorthands of operators: torch has both.

#include <limits>
#include <utility>
#include <vector>

#include "runtime/functional/functional.h"

namespace kernbench {

#define KERNBENCH_FUNCTION(name)   \
  Tensor Tensor::name() const {    \
    return kernbench::name(*this); \
  }
KERNBENCH_FUNCTION(sign)
KERNBENCH_FUNCTION(exp2)
KERNBENCH_FUNCTION(expm1)
KERNBENCH_FUNCTION(log2)
KERNBENCH_FUNCTION(log10)
KERNBENCH_FUNCTION(log1p)
KERNBENCH_FUNCTION(sin)
KERNBENCH_FUNCTION(cos)
KERNBENCH_FUNCTION(tan)
KERNBENCH_FUNCTION(erf)
KERNBENCH_FUNCTION(asin)
KERNBENCH_FUNCTION(acos)
KERNBENCH_FUNCTION(atan)
KERNBENCH_FUNCTION(sinh)
KERNBENCH_FUNCTION(cosh)
KERNBENCH_FUNCTION(floor)
KERNBENCH_FUNCTION(ceil)
KERNBENCH_FUNCTION(trunc)
KERNBENCH_FUNCTION(round)
KERNBENCH_FUNCTION(isnan)
KERNBENCH_FUNCTION(isinf)
KERNBENCH_FUNCTION(isfinite)
KERNBENCH_FUNCTION(prod)
KERNBENCH_FUNCTION(median)
KERNBENCH_FUNCTION(bernoulli)
#undef KERNBENCH_FUNCTION

Tensor Tensor::remainder(const Tensor& other) const {
  return kernbench::remainder(*this, other);
}
Tensor Tensor::remainder(const Scalar& number) const {
  return kernbench::remainder(*this, number);
}
Tensor Tensor::fmod(const Tensor& other) const {
  return kernbench::fmod(*this, other);
}
Tensor Tensor::fmod(const Scalar& number) const {
  return kernbench::fmod(*this, number);
}
Tensor Tensor::floor_divide(const Tensor& other) const {
  return kernbench::floor_divide(*this, other);
}
Tensor Tensor::floor_divide(const Scalar& number) const {
  return kernbench::floor_divide(*this, number);
}
Tensor Tensor::lerp(const Tensor& end, double weight) const {
  return kernbench::lerp(*this, end, weight);
}
Tensor Tensor::addcmul(const Tensor& a, const Tensor& b, const Scalar& value) const {
  return kernbench::addcmul(*this, a, b, value);
}
Tensor Tensor::addcdiv(const Tensor& a, const Tensor& b, const Scalar& value) const {
  return kernbench::addcdiv(*this, a, b, value);
}
Tensor Tensor::var(const Dimensions& dims, bool unbiased, bool keepdim) const {
  return kernbench::var(*this, dims, unbiased, keepdim);
}
Tensor Tensor::std(const Dimensions& dims, bool unbiased, bool keepdim) const {
  return kernbench::std(*this, dims, unbiased, keepdim);
}
Tensor Tensor::prod(int dim, bool keepdim) const {
  return kernbench::prod(*this, dim, keepdim);
}
Tensor Tensor::logsumexp(const Dimensions& dims, bool keepdim) const {
  return kernbench::logsumexp(*this, dims, keepdim);
}
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
Tensor Tensor::logical_xor(const Tensor& other) const {
  return kernbench::logical_xor(*this, other);
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
Tensor Tensor::mv(const Tensor& vector) const {
  return kernbench::mv(*this, vector);
}
Tensor Tensor::dot(const Tensor& other) const {
  return kernbench::dot(*this, other);
}
Tensor Tensor::outer(const Tensor& other) const {
  return kernbench::outer(*this, other);
}
Tensor Tensor::masked_select(const Tensor& mask) const {
  return kernbench::masked_select(*this, mask);
}
Tensor Tensor::flip(const std::vector<int>& dims) const {
  return kernbench::flip(*this, dims);
}
Tensor Tensor::roll(std::int64_t shift, std::optional<int> dim) const {
  return kernbench::roll(*this, shift, dim);
}
Tensor Tensor::repeat_interleave(std::int64_t repeats, std::optional<int> dim) const {
  return kernbench::repeat_interleave(*this, repeats, dim);
}
Tensor Tensor::multinomial(std::int64_t num_samples, bool replacement) const {
  return kernbench::multinomial(*this, num_samples, replacement);
}
std::pair<Tensor, Tensor> Tensor::median(int dim, bool keepdim) const {
  return kernbench::median(*this, dim, keepdim);
}
Tensor Tensor::unfold(int dim, std::int64_t size, std::int64_t step) const {
  return kernbench::unfold(*this, dim, size, step);
}
Tensor Tensor::unflatten(int dim, const std::vector<std::int64_t>& sizes) const {
  return kernbench::unflatten(*this, dim, sizes);
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

}  // namespace kernbench
