// The operators of a model on the host, in double precision or as a device might compute them.  For
// dense_*.cpp alone, since it includes Eigen.

#pragma once

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "benches/bench/exact_integers.h"
#include "sim_engine/base/dtype.h"
#include "sim_engine/values/element_format.h"

namespace kernbench::benches::tensor_parallel {

template <class Scalar>
using RowMajor = Eigen::Matrix<Scalar, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

// Eigen's product and transpose of each kind of operand would be compiled anew, and are half of the
// cost of these files; parts of matrices are copied instead.
RowMajor<float> product(const RowMajor<float>& a, const RowMajor<float>& b);
RowMajor<double> product(const RowMajor<double>& a, const RowMajor<double>& b);
RowMajor<float> transposed(const RowMajor<float>& x);
RowMajor<double> transposed(const RowMajor<double>& x);

class ExactArithmetic {
 public:
  using Scalar = double;
  using Matrix = RowMajor<double>;

  Matrix rounded(Matrix x) { return x; }
};

// Arithmetic of a device: in f32, with each result of an operation rounded to a type.  It rounds to
// nearest, like devices, or, with a seed, adds an error drawn uniformly from the range of rounding
// errors (Vignes' random arithmetic, Math. Comput. Simul. 35, 1993).
class SampledArithmetic {
 public:
  using Scalar = float;
  using Matrix = RowMajor<float>;

  explicit SampledArithmetic(DType dtype, std::optional<std::uint64_t> seed = std::nullopt)
      : dtype_(dtype), is_drawn_(seed.has_value()), state_(scrambled_seed(seed.value_or(0))) {}

  // Half a unit in the last place of 1.
  static float unit_of(DType dtype) {
    if (dtype == DType::f16) return 0x1p-11F;
    return dtype == DType::bf16 ? 0x1p-8F : 0x1p-24F;
  }

  Matrix rounded(Matrix x) {
    return is_drawn_ ? with_errors(std::move(x)) : to_nearest(std::move(x));
  }

 private:
  // Half the distance of the smallest numbers; it never matters for bf16 and f32.
  static float underflow_of(DType dtype) { return dtype == DType::f16 ? 0x1p-25F : 0; }

  Matrix with_errors(Matrix x) {
    const float unit = unit_of(dtype_);
    const float underflow = underflow_of(dtype_);
    for (float& element : x.reshaped()) {
      const auto error = static_cast<float>(static_cast<std::int32_t>(scrambled(++state_)));
      element += error * 0x1p-31F * (unit * std::abs(element) + underflow);
    }
    return x;
  }

  Matrix to_nearest(Matrix x) const {
    const std::span<float> elements(x.data(), static_cast<std::size_t>(x.size()));
    std::vector<std::byte> bytes(elements.size() * static_cast<std::size_t>(size_of(dtype_)));
    sim::encode(dtype_, elements, bytes.data());
    sim::decode(dtype_, bytes.data(), elements);
    return x;
  }

  const DType dtype_;
  const bool is_drawn_;
  std::uint32_t state_;
};

// gelu by tanh: x s(z) with s(z) = 1 / (1 + exp(-z)), z = 2 sqrt(2 / pi) (x + 0.044715 x^3).
template <class Scalar>
struct Gelu {
  static constexpr Scalar kFactor = Scalar(1.5957691216057308);
  static constexpr Scalar kCubic = Scalar(0.044715);

  explicit Gelu(Scalar x) {
    const Scalar z = kFactor * (x + kCubic * x * x * x);
    const Scalar s = 1 / (1 + std::exp(-z));
    value = x * s;
    slope = s + x * s * (1 - s) * kFactor * (1 + 3 * kCubic * x * x);
  }

  Scalar value;
  Scalar slope;
};

// (x - mean) / deviation of each row, and 1 / deviation.
template <class Matrix>
struct Standardized {
  using Scalar = typename Matrix::Scalar;
  static constexpr Scalar kEpsilon = Scalar(1e-5);

  Standardized() = default;
  explicit Standardized(const Matrix& x) : rows(x.colwise() - x.rowwise().mean()) {
    scale = (rows.rowwise().squaredNorm() / static_cast<Scalar>(x.cols())).array() + kEpsilon;
    scale = scale.array().rsqrt();
    rows.array().colwise() *= scale.col(0).array();
  }

  Matrix rows;
  Matrix scale;  // [rows, 1]
};

// Computes from the gradient of the rows' y = z w + b the gradient of the norm's input.
template <class Matrix>
Matrix layer_norm_gradient(const Matrix& dy, const Standardized<Matrix>& z, const Matrix& weight) {
  Matrix g = dy.array().rowwise() * weight.row(0).array();
  const Matrix mean = g.rowwise().mean();
  const Matrix slope = g.cwiseProduct(z.rows).rowwise().mean();
  g.colwise() -= mean.col(0);
  g -= (z.rows.array().colwise() * slope.col(0).array()).matrix();
  g.array().colwise() *= z.scale.col(0).array();
  return g;
}

// Keeps the first i + 1 elements of row i and sets the others to 0.
template <class Matrix>
Matrix causal_softmax(const Matrix& x) {
  Matrix p = Matrix::Zero(x.rows(), x.cols());
  for (Eigen::Index i = 0; i < x.rows(); ++i) {
    const Eigen::Index seen = std::min(i + 1, x.cols());
    const auto row = x.row(i).head(seen);
    p.row(i).head(seen) = (row.array() - row.maxCoeff()).exp();
    p.row(i).head(seen) /= p.row(i).head(seen).sum();
  }
  return p;
}

// Maps the gradient of the probabilities to the gradient of the softmax's input.
template <class Matrix>
Matrix softmax_gradient(const Matrix& dp, const Matrix& p) {
  const Matrix along = dp.cwiseProduct(p).rowwise().sum();
  return p.cwiseProduct(dp.colwise() - along.col(0));
}

}  // namespace kernbench::benches::tensor_parallel
