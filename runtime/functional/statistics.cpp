// Reductions that are made of others: variance, products, log of sums of exponentials.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "runtime/functional/operators.h"
#include "runtime/functional/shape_operators.h"
#include "runtime/ops/placement.h"

namespace kernbench {

namespace {

// Computes in f32, and rounds once to the type of x at the end.
template <class Function>
Tensor in_f32(const Tensor& x, const Function& function) {
  return is_integral(x.dtype()) ? function(x) : function(x.to(DType::f32)).to(x.dtype());
}

void check_is_real(std::string_view name, const Tensor& x) {
  if (!is_integral(x.dtype())) return;
  ops::refuse_type(name, fmt::format("{} only supports floating point dtypes. Got: {}", name,
                                     torch_name_of(x.dtype())));
}

// The differences of the elements to their mean, and the divisor of the sum of their squares.
struct Deviations {
  Tensor elements;
  double divisor = 0;
};

Deviations compute_deviations(const Tensor& x, const Dimensions& dims, bool unbiased) {
  const Tensor mean_of_all = mean(x, dims, true);
  const double count = static_cast<double>(x.numel()) /
                       std::max<double>(1, static_cast<double>(mean_of_all.numel()));
  return {x - mean_of_all, std::max(count - (unbiased ? 1 : 0), 0.0)};
}

}  // namespace

Tensor var(const Tensor& x, const Dimensions& dims, bool unbiased, bool keepdim) {
  check_is_real("var", x);
  return in_f32(x, [&](const Tensor& of) {
    const Deviations deviations = compute_deviations(of, dims, unbiased);
    return sum(square(deviations.elements), dims, keepdim) / deviations.divisor;
  });
}

Tensor std(const Tensor& x, const Dimensions& dims, bool unbiased, bool keepdim) {
  check_is_real("std", x);
  return in_f32(x, [&](const Tensor& of) {
    const Deviations deviations = compute_deviations(of, dims, unbiased);
    return norm(deviations.elements, 2, dims, keepdim) / std::sqrt(deviations.divisor);
  });
}

// Multiplies halves, so that no more roundings than the logarithm of the size follow each other.
Tensor prod(const Tensor& x, int dim, bool keepdim) {
  if (ops::is_point("prod", x, dim)) return reshape(prod(reshape(x, {1}), 0, false), {});
  const auto of_halves = [&](Tensor of) {
    if (of.size(dim) == 0) return exp(sum(of, dim, true));  // 1
    while (of.size(dim) > 1) {
      const std::int64_t half = of.size(dim) / 2;
      const Tensor rest = narrow(of, dim, 2 * half, of.size(dim) - 2 * half);
      of = narrow(of, dim, 0, half) * narrow(of, dim, half, half);
      if (rest.numel() > 0) of = cat({of, rest}, dim);
    }
    return of;
  };
  const Tensor product =
      is_integral(x.dtype()) ? of_halves(x.to(DType::i64)).to(DType::i64) : in_f32(x, of_halves);
  const Tensor own = product.is_alias_of(x) ? clone(product) : product;  // of one factor each
  return keepdim ? own : squeeze(own, dim);
}

Tensor prod(const Tensor& x) {
  return prod(reshape(x, {x.numel()}), 0);
}

Tensor logsumexp(const Tensor& x, const Dimensions& dims, bool keepdim) {
  if (is_integral(x.dtype())) return logsumexp(x.to(DType::f32), dims, keepdim);
  return in_f32(x, [&](const Tensor& of) {
    if (of.numel() == 0) return log(sum(exp(of), dims, keepdim));  // -infinity of none
    const Tensor most = amax(of.detach(), dims, true);
    const Tensor origin = where(isfinite(most), most, 0);
    const Tensor sums = log(sum(exp(of - origin), dims, true)) + origin;
    return keepdim ? sums : sum(sums, dims);
  });
}

}  // namespace kernbench
