#include "benches/operators/cases/poly_kernels.h"

namespace kernbench::benches::operators {

namespace {

Value norm(const Value& v) {
  return v * rsqrt(mean(power(v, 2)) + kPolyEps);
}

tl::Tensor row_sum(tl::Context& tl, const tl::Tensor& x) {
  return tl.sum(x, 1, {.keep_dims = true});
}

}  // namespace

Value compute_poly(const Value& x, const std::array<Value, 3>& weights, const Value& bias) {
  return norm(power(x, 3)) * weights[0] + norm(power(x, 2)) * weights[1] + norm(x) * weights[2] +
         bias;
}

PolyCoefficients load_coefficients(tl::Context& tl, tl::Pointer weight, tl::Pointer bias) {
  const auto load = [&](const tl::Pointer& from) {
    return tl.cast(tl.load(from, {1, 1}, from.dtype()), DType::f32);
  };
  return {load(weight), load(weight + 1), load(weight + 2), load(bias)};
}

PolyNorms compute_norms(tl::Context& tl, const tl::Tensor& x) {
  const double share = 1.0 / static_cast<double>(x.shape()[1]);
  const auto norm_of_squares = [&](const tl::Tensor& squares) {
    return tl.rsqrt(row_sum(tl, squares) * share + kPolyEps);
  };
  const tl::Tensor x2 = x * x;
  const tl::Tensor x4 = x2 * x2;
  return {norm_of_squares(x4 * x2), norm_of_squares(x4), norm_of_squares(x2)};
}

void store_norms(tl::Context& tl, tl::Pointer norms, std::int64_t begin, const PolyNorms& values) {
  std::int64_t column = 3 * begin;
  for (const tl::Tensor& value : values) tl.store(norms + column++, value, 3);
}

PolyNorms load_norms(tl::Context& tl, tl::Pointer norms, std::int64_t begin, std::int64_t rows) {
  const auto load = [&](std::int64_t column) {
    return tl.load(norms + (3 * begin + column), {rows, 1}, DType::f32, 3);
  };
  return {load(0), load(1), load(2)};
}

tl::Tensor compute_poly(tl::Context& tl, const tl::Tensor& x, const PolyNorms& norms,
                        const PolyCoefficients& coefficients) {
  const tl::Tensor a3 = coefficients[0] * norms[0];
  const tl::Tensor a2 = coefficients[1] * norms[1];
  const tl::Tensor a1 = coefficients[2] * norms[2];
  return tl.fma(tl.fma(tl.fma(x, a3, a2), x, a1), x, coefficients[3]);
}

PolyGradients compute_gradients(tl::Context& tl, const tl::Tensor& x, const tl::Tensor& gradient,
                                const PolyNorms& norms, const PolyCoefficients& coefficients) {
  const auto& [r3, r2, r1] = norms;
  const tl::Tensor db = row_sum(tl, gradient);
  tl::Tensor product = gradient * x;
  const tl::Tensor k1 = row_sum(tl, product);
  product = product * x;
  const tl::Tensor k2 = row_sum(tl, product);
  product = product * x;
  const tl::Tensor k3 = row_sum(tl, product);

  const tl::Tensor a3 = coefficients[0] * r3;
  const tl::Tensor a2 = coefficients[1] * r2;
  const tl::Tensor a1 = coefficients[2] * r1;
  const double share = 1.0 / static_cast<double>(x.shape()[1]);
  const tl::Tensor minus_e3 = a3 * r3 * r3 * k3 * -share;
  const tl::Tensor minus_e2 = a2 * r2 * r2 * k2 * -share;
  const tl::Tensor minus_e1 = a1 * r1 * r1 * k1 * -share;
  product = x * x;
  product = x * tl.fma(tl.fma(product, minus_e3 * 3, minus_e2 * 2), product, minus_e1);
  const tl::Tensor slope = tl.fma(tl.fma(x, a3 * 3, a2 * 2), x, a1);
  return {tl.fma(gradient, slope, product), {r3 * k3, r2 * k2, r1 * k1, db}};
}

CoefficientSums::CoefficientSums(tl::Context& tl)
    : tl_(tl),
      sums_{tl.zeros({1, 1}, DType::f32), tl.zeros({1, 1}, DType::f32),
            tl.zeros({1, 1}, DType::f32), tl.zeros({1, 1}, DType::f32)} {}

void CoefficientSums::add(const PolyCoefficients& of_rows) {
  for (std::size_t i = 0; i < sums_.size(); ++i) {
    sums_[i] = sums_[i] + tl_.sum(of_rows[i], 0, {.keep_dims = true});
  }
}

void CoefficientSums::store(tl::Pointer dweight, tl::Pointer dbias) const {
  for (std::int64_t i = 0; i < 3; ++i) {
    tl_.store(dweight + i, sums_[static_cast<std::size_t>(i)]);
  }
  tl_.store(dbias, sums_[3]);
}

}  // namespace kernbench::benches::operators
