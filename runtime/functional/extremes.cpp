// The largest and smallest elements with their indices, and comparisons of whole tensors.

#include <algorithm>
#include <cmath>
#include <utility>

#include "runtime/functional/elementwise.h"
#include "runtime/functional/indexing.h"
#include "runtime/functional/reductions.h"
#include "runtime/functional/shape_operators.h"

namespace kernbench {

namespace {

// The order of elements turned round: integers without the overflow of the smallest one.
Tensor reversed(const Tensor& x) {
  return is_integral(x.dtype()) ? -1 - x.to(DType::i64) : -x.detach();
}

std::pair<Tensor, Tensor> first_of(const Tensor& x, int dim, bool keepdim, bool largest) {
  if (x.dtype() == DType::boolean) {
    const auto [numbers, at] = first_of(x.to(DType::i64), dim, keepdim, largest);
    return {numbers.to(DType::boolean), at};
  }
  const auto [values, indices] = topk(x, 1, dim, largest);
  if (keepdim || x.dim() == 0) return {values, indices};
  return {squeeze(values, dim), squeeze(indices, dim)};
}

}  // namespace

Tensor argmin(const Tensor& x, int dim, bool keepdim) {
  return argmax(reversed(x), dim, keepdim);
}
Tensor argmin(const Tensor& x) {
  return argmax(reversed(x));
}

std::pair<Tensor, Tensor> max(const Tensor& x, int dim, bool keepdim) {
  return first_of(x, dim, keepdim, true);
}
std::pair<Tensor, Tensor> min(const Tensor& x, int dim, bool keepdim) {
  return first_of(x, dim, keepdim, false);
}

bool equal(const Tensor& a, const Tensor& b) {
  if (a.shape() != b.shape()) return false;
  if (is_integral(a.dtype()) && is_integral(b.dtype())) {
    return a.to_vector<std::int64_t>() == b.to_vector<std::int64_t>();
  }
  return a.to_vector() == b.to_vector();
}

bool allclose(const Tensor& a, const Tensor& b, double rtol, double atol) {
  const auto is_close = [&](float x, float y) {
    return x == y || std::abs(double{x} - double{y}) <= atol + rtol * std::abs(double{y});
  };
  return a.shape() == b.shape() && std::ranges::equal(a.to_vector(), b.to_vector(), is_close);
}

}  // namespace kernbench
