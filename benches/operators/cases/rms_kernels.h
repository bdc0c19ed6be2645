// RMSNorm inside kernels, in f32: the parts shared by rms and add_rms.
//
// With r = 1 / sqrt(mean(x^2) + eps), n = x r and g = dy weight:
//   y = x r weight,  dx = r (g - n mean(g n)) = g r - x r^3 mean(g x),  dweight = sum of dy n

#pragma once

#include "benches/operators/operator_case.h"
#include "runtime/tl/tl.h"

namespace kernbench::benches::operators {

inline constexpr double kRmsEps = 1e-6;

// The definition, for graphs.
inline Value rms_graph(const Value& x, const Value& weight) {
  return x * rsqrt(mean(power(x, 2)) + kRmsEps) * weight;
}

// Loads the weight, [1, dim] of the kernel's type, as f32.
inline tl::Tensor load_weight(tl::Context& tl, tl::Pointer weight, std::int64_t dim) {
  return tl.cast(tl.load(weight, {1, dim}, weight.dtype()), DType::f32);
}

// r of x [rows, dim]: [rows, 1].
inline tl::Tensor rms_factor(tl::Context& tl, const tl::Tensor& x) {
  const double share = 1.0 / static_cast<double>(x.shape()[1]);
  return tl.rsqrt(tl.sum(x * x, 1, {.keep_dims = true}) * share + kRmsEps);
}

inline tl::Tensor rms_gradient(tl::Context& tl, const tl::Tensor& x, const tl::Tensor& dy,
                               const tl::Tensor& r, const tl::Tensor& weight) {
  const double share = 1.0 / static_cast<double>(x.shape()[1]);
  const tl::Tensor g = dy * weight;
  const tl::Tensor gx = tl.sum(g * x, 1, {.keep_dims = true});
  return tl.fma(x, r * r * r * gx * -share, g * r);
}

// The weight's gradient from these rows: [1, dim].
inline tl::Tensor weight_gradient(tl::Context& tl, const tl::Tensor& x, const tl::Tensor& dy,
                                  const tl::Tensor& r) {
  return tl.sum(dy * x * r, 0, {.keep_dims = true});
}

}  // namespace kernbench::benches::operators
