// PolyNorm inside kernels: the parts shared by poly, mul_poly and grouped_mul_poly.
//
//   poly(x) = w0 norm(x^3) + w1 norm(x^2) + w2 norm(x) + b,  norm(v) = v / sqrt(mean(v^2) + eps)
//
// With r_i = 1 / sqrt(mean(x^2i) + eps) and a_i = w r_i it is a polynomial in x whose coefficients
// are those of its row: a3 x^3 + a2 x^2 + a1 x + b.  With g its gradient, k_i = sum of g x^i and
// e_i = a_i r_i^2 k_i / dim:
//
//   dx = g (a1 + 2 a2 x + 3 a3 x^2) - (e1 x + 2 e2 x^3 + 3 e3 x^5),  dw_i = r_i k_i,  db = sum of g

#pragma once

#include <array>
#include <optional>
#include <utility>

#include "benches/operators/operator_case.h"
#include "benches/operators/operator_run.h"
#include "runtime/tl/tl.h"

namespace kernbench::benches::operators {

inline constexpr double kPolyEps = 1e-6;

// The definition, for graphs.  The weights are those of x^3, x^2 and x.
Value compute_poly(const Value& x, const std::array<Value, 3>& weights, const Value& bias);

// All f32.  Weights of x^3, x^2, x, and the bias: [1, 1], or [rows, 1].
using PolyCoefficients = std::array<tl::Tensor, 4>;
// r of x^3, x^2, x: [rows, 1].
using PolyNorms = std::array<tl::Tensor, 3>;

PolyCoefficients load_coefficients(tl::Context& tl, tl::Pointer weight, tl::Pointer bias);

PolyNorms compute_norms(tl::Context& tl, const tl::Tensor& x);
// Stores the norms of rows from `begin` on, three consecutive numbers per row.
void store_norms(tl::Context& tl, tl::Pointer norms, std::int64_t begin, const PolyNorms& values);
PolyNorms load_norms(tl::Context& tl, tl::Pointer norms, std::int64_t begin, std::int64_t rows);

tl::Tensor compute_poly(tl::Context& tl, const tl::Tensor& x, const PolyNorms& norms,
                        const PolyCoefficients& coefficients);

struct PolyGradients {
  tl::Tensor x;                   // [rows, dim]
  PolyCoefficients coefficients;  // of each row: [rows, 1]
};
PolyGradients compute_gradients(tl::Context& tl, const tl::Tensor& x, const tl::Tensor& gradient,
                                const PolyNorms& norms, const PolyCoefficients& coefficients);

// Sums over tokens of the coefficients' gradients.
class CoefficientSums {
 public:
  explicit CoefficientSums(tl::Context& tl);

  void add(const PolyCoefficients& of_rows);
  void store(tl::Pointer dweight, tl::Pointer dbias) const;

 private:
  tl::Context& tl_;
  PolyCoefficients sums_;
};

struct PolyForward {
  tl::Pointer x;
  std::optional<tl::Pointer> mul;
  tl::Pointer y;
  tl::Pointer norms;  // left to backward
  std::int64_t dim = 0;
};

struct PolyBackward {
  tl::Pointer x;
  std::optional<tl::Pointer> mul;
  tl::Pointer dy;
  tl::Pointer norms;
  tl::Pointer dx;
  std::optional<tl::Pointer> dmul;
  std::int64_t dim = 0;
};

// Goes through a PE's rows.  coefficients_at(begin, rows) are those of a block; `fixed` is the
// scratch that it holds.
template <class CoefficientsAt>
void poly_forward(tl::Context& tl, const TokenShare& share, const PolyForward& at, Bytes fixed,
                  const CoefficientsAt& coefficients_at) {
  const std::int64_t dim = at.dim;
  const DType dtype = at.x.dtype();
  const auto load = [&](std::int64_t begin, std::int64_t rows) {
    const tl::Shape shape{rows, dim};
    std::optional<tl::Tensor> mul;
    tl::Tensor x = tl.load(at.x + begin * dim, shape, dtype);
    if (at.mul) mul.emplace(tl.load(*at.mul + begin * dim, shape, dtype));
    return std::pair(std::move(x), std::move(mul));
  };
  const auto work = [&](std::int64_t begin, std::int64_t rows, const auto& loaded) {
    const tl::Tensor x = tl.cast(loaded.first, DType::f32);
    const PolyNorms norms = compute_norms(tl, x);
    store_norms(tl, at.norms, begin, norms);
    tl::Tensor y = compute_poly(tl, x, norms, coefficients_at(begin, rows));
    if (loaded.second) y = y * tl.cast(*loaded.second, DType::f32);
    tl.store(at.y + begin * dim, tl.cast(y, dtype));
  };
  const Bytes per_row = dim * (5 * size_of(dtype) + 5 * size_of(DType::f32));
  for_each_block(share, rows_per_block(share, per_row, fixed), load, work);
}

// Computes the gradient of x, block by block like poly_forward().  take(begin, rows, gradients)
// receives the gradients of the coefficients.
template <class CoefficientsAt, class Take>
void poly_backward(tl::Context& tl, const TokenShare& share, const PolyBackward& at, Bytes fixed,
                   const CoefficientsAt& coefficients_at, const Take& take) {
  const std::int64_t dim = at.dim;
  const DType dtype = at.x.dtype();
  struct Loaded {
    tl::Tensor x;
    tl::Tensor dy;
    std::optional<tl::Tensor> mul;
    PolyNorms norms;
  };
  const auto load = [&](std::int64_t begin, std::int64_t rows) {
    const tl::Shape shape{rows, dim};
    std::optional<tl::Tensor> mul;
    if (at.mul) mul.emplace(tl.load(*at.mul + begin * dim, shape, dtype));
    return Loaded{tl.load(at.x + begin * dim, shape, dtype),
                  tl.load(at.dy + begin * dim, shape, dtype), std::move(mul),
                  load_norms(tl, at.norms, begin, rows)};
  };
  const auto work = [&](std::int64_t begin, std::int64_t rows, const Loaded& loaded) {
    const tl::Tensor x = tl.cast(loaded.x, DType::f32);
    const PolyCoefficients coefficients = coefficients_at(begin, rows);
    tl::Tensor gradient = tl.cast(loaded.dy, DType::f32);
    if (loaded.mul) {
      const tl::Tensor dmul = gradient * compute_poly(tl, x, loaded.norms, coefficients);
      tl.store(*at.dmul + begin * dim, tl.cast(dmul, dtype));
      gradient = gradient * tl.cast(*loaded.mul, DType::f32);
    }
    const PolyGradients found = compute_gradients(tl, x, gradient, loaded.norms, coefficients);
    tl.store(at.dx + begin * dim, tl.cast(found.x, dtype));
    take(begin, rows, found.coefficients);
  };
  const Bytes per_row = dim * (7 * size_of(dtype) + 6 * size_of(DType::f32));
  for_each_block(share, rows_per_block(share, per_row, fixed), load, work);
}

}  // namespace kernbench::benches::operators
