// The largest and smallest elements with their indices, and comparisons of whole tensors.

#include <algorithm>
#include <cmath>
#include <utility>

#include "runtime/functional/operators.h"
#include "runtime/functional/shape_operators.h"
#include "runtime/ops/placement.h"

namespace kernbench {

namespace {

// The order of elements turned round: integers without the overflow of the smallest one.
Tensor reversed(const Tensor& x) {
  return is_integral(x.dtype()) ? -1 - x.to(DType::i64) : -x.detach();
}

std::pair<Tensor, Tensor> find_first(const Tensor& x, int dim, bool keepdim, bool largest) {
  if (x.dtype() == DType::boolean) {
    const auto [numbers, at] = find_first(x.to(DType::i64), dim, keepdim, largest);
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
  return find_first(x, dim, keepdim, true);
}
std::pair<Tensor, Tensor> min(const Tensor& x, int dim, bool keepdim) {
  return find_first(x, dim, keepdim, false);
}

std::pair<Tensor, Tensor> median(const Tensor& x, int dim, bool keepdim) {
  if (ops::is_point("median", x, dim)) {
    const auto [value, index] = median(reshape(x, {1}), 0);
    return {value, index};
  }
  const auto [sorted, order] = sort(x, dim);
  const std::int64_t size = x.size(dim);
  if (size == 0) ops::refuse_shapes("median", "Expected reduction dim to have non-zero size");
  const auto at = [&](const Tensor& of, std::int64_t i) {
    const Tensor kept = narrow(of, dim, i, 1);
    return keepdim ? kept : squeeze(kept, dim);
  };
  const std::int64_t middle = (size - 1) / 2;
  if (is_integral(x.dtype())) return {at(sorted, middle), at(order, middle)};
  const Tensor is_nan = isnan(at(sorted, size - 1).detach());  // NaN comes last
  return {where(is_nan, at(sorted, size - 1), at(sorted, middle)),
          where(is_nan, at(order, size - 1), at(order, middle))};
}

Tensor median(const Tensor& x) {
  if (x.numel() == 0 && !is_integral(x.dtype())) return mean(x);  // NaN
  return median(flatten(x), 0).first;
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
