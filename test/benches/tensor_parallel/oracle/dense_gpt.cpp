#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "test/benches/tensor_parallel/oracle/dense_arithmetic.h"
#include "test/benches/tensor_parallel/oracle/dense_step.h"

namespace kernbench::benches::tensor_parallel {

namespace {

constexpr std::size_t kParametersPerLayer = 12;

// The parameters of a layer, in the order of GptBlock::parameters().
template <class Matrix>
struct LayerParameters {
  Matrix norm_weight, norm_bias;
  Matrix qkv_weight, qkv_bias;
  Matrix dense_weight, dense_bias;
  Matrix mlp_norm_weight, mlp_norm_bias;
  Matrix up_weight, up_bias;
  Matrix down_weight, down_bias;

  std::array<Matrix*, kParametersPerLayer> in_order() {
    return {&norm_weight,     &norm_bias,     &qkv_weight, &qkv_bias, &dense_weight, &dense_bias,
            &mlp_norm_weight, &mlp_norm_bias, &up_weight,  &up_bias,  &down_weight,  &down_bias};
  }
};

template <class Matrix>
Matrix to_matrix(const DenseMatrix& dense) {
  return Eigen::Map<const RowMajor<float>>(dense.elements.data(), dense.rows, dense.columns)
      .template cast<typename Matrix::Scalar>();
}

// Forward and backward of a block.
template <class Arithmetic>
class DenseBlock {
 public:
  using Matrix = typename Arithmetic::Matrix;
  using Scalar = typename Arithmetic::Scalar;

  DenseBlock(const GptSize& size, const GptDevices& devices, Arithmetic& arithmetic,
             std::span<const DenseMatrix> parameters)
      : head_(size.hidden / size.heads),
        scale_(1 / std::sqrt(static_cast<Scalar>(head_))),
        devices_(devices),
        arithmetic_(arithmetic) {
    for (std::size_t i = 0; i < kParametersPerLayer; ++i) {
      *own_.in_order()[i] = to_matrix<Matrix>(parameters[i]);
    }
  }

  Matrix forward(const Matrix& x) {
    norm_ = Standardized<Matrix>(x);
    normed_ = layer_norm(norm_, own_.norm_weight, own_.norm_bias);
    qkv_ = linear(normed_, own_.qkv_weight, own_.qkv_bias);
    context_ = attention();
    const Matrix attended = rounded(x + row_parallel(context_, own_.dense_weight, own_.dense_bias));
    mlp_norm_ = Standardized<Matrix>(attended);
    mlp_normed_ = layer_norm(mlp_norm_, own_.mlp_norm_weight, own_.mlp_norm_bias);
    up_ = linear(mlp_normed_, own_.up_weight, own_.up_bias);
    active_ = rounded(up_.unaryExpr([](Scalar u) { return Gelu<Scalar>(u).value; }));
    return rounded(attended + row_parallel(active_, own_.down_weight, own_.down_bias));
  }

  // Maps the gradient of forward()'s result to that of its argument; gradients() has the
  // parameters'.
  Matrix backward(const Matrix& dy) {
    const Matrix d_attended = rounded(mlp_backward(dy) + dy);
    return rounded(attention_backward(d_attended) + d_attended);
  }

  LayerParameters<Matrix>& gradients() { return gradients_; }

 private:
  Matrix rounded(Matrix x) { return arithmetic_.rounded(std::move(x)); }

  Matrix layer_norm(const Standardized<Matrix>& z, const Matrix& weight, const Matrix& bias) {
    Matrix y = z.rows.array().rowwise() * weight.row(0).array();
    y.rowwise() += bias.row(0);
    return rounded(std::move(y));
  }

  Matrix linear(const Matrix& x, const Matrix& weight, const Matrix& bias) {
    Matrix y = rounded(product(x, weight));
    y.rowwise() += bias.row(0);
    return rounded(std::move(y));
  }

  // The product a b as a sum over all PEs of all ranks, each with an equal part of the inner
  // dimension.
  Matrix summed(const Matrix& a, const Matrix& b) {
    const Eigen::Index part = a.cols() / (devices_.ranks * devices_.pes);
    Matrix sum = rounded(product(Matrix(a.leftCols(part)), Matrix(b.topRows(part))));
    for (Eigen::Index at = part; at < a.cols(); at += part) {
      sum += rounded(product(Matrix(a.middleCols(at, part)), Matrix(b.middleRows(at, part))));
      sum = rounded(std::move(sum));
    }
    return sum;
  }

  Matrix row_parallel(const Matrix& x, const Matrix& weight, const Matrix& bias) {
    Matrix y = summed(x, weight);
    y.rowwise() += bias.row(0);
    return rounded(std::move(y));
  }

  // Sums the rows of what all ranks have: with sequence parallelism each sums over its own rows.
  Matrix sum_of_rows(const Matrix& x) {
    const Eigen::Index rows = x.rows() / (devices_.sequence_parallel ? devices_.ranks : 1);
    Matrix sum = rounded(x.topRows(rows).colwise().sum());
    for (Eigen::Index at = rows; at < x.rows(); at += rows) {
      sum += rounded(x.middleRows(at, rows).colwise().sum());
      sum = rounded(std::move(sum));
    }
    return sum;
  }

  Eigen::Index heads() const { return context_columns() / head_; }
  Eigen::Index context_columns() const { return own_.dense_weight.rows(); }
  // Query, key and value of a head, or their gradients.
  auto part(Matrix& of, Eigen::Index head, Eigen::Index which) const {
    return of.middleCols((3 * head + which) * head_, head_);
  }

  Matrix attention() {
    Matrix context(qkv_.rows(), context_columns());
    probabilities_.clear();
    for (Eigen::Index head = 0; head < heads(); ++head) {
      const Matrix scores =
          rounded(product(part(qkv_, head, 0), transposed(Matrix(part(qkv_, head, 1)))));
      probabilities_.push_back(rounded(causal_softmax<Matrix>(scores * scale_)));
      context.middleCols(head * head_, head_) = product(probabilities_.back(), part(qkv_, head, 2));
    }
    return rounded(std::move(context));
  }

  Matrix mlp_backward(const Matrix& dy) {
    gradients_.down_bias = sum_of_rows(dy);
    gradients_.down_weight = rounded(product(transposed(active_), dy));
    Matrix d_up = rounded(product(dy, transposed(own_.down_weight)));
    d_up.array() *= up_.unaryExpr([](Scalar u) { return Gelu<Scalar>(u).slope; }).array();
    d_up = rounded(std::move(d_up));
    gradients_.up_bias = rounded(d_up.colwise().sum());
    gradients_.up_weight = rounded(product(transposed(mlp_normed_), d_up));
    const Matrix d_normed = summed(d_up, transposed(own_.up_weight));
    gradients_.mlp_norm_bias = sum_of_rows(d_normed);
    gradients_.mlp_norm_weight = sum_of_rows(d_normed.cwiseProduct(mlp_norm_.rows));
    return rounded(layer_norm_gradient(d_normed, mlp_norm_, own_.mlp_norm_weight));
  }

  Matrix attention_backward(const Matrix& dy) {
    gradients_.dense_bias = sum_of_rows(dy);
    gradients_.dense_weight = rounded(product(transposed(context_), dy));
    const Matrix d_qkv = heads_backward(rounded(product(dy, transposed(own_.dense_weight))));
    gradients_.qkv_bias = rounded(d_qkv.colwise().sum());
    gradients_.qkv_weight = rounded(product(transposed(normed_), d_qkv));
    const Matrix d_normed = summed(d_qkv, transposed(own_.qkv_weight));
    gradients_.norm_bias = sum_of_rows(d_normed);
    gradients_.norm_weight = sum_of_rows(d_normed.cwiseProduct(norm_.rows));
    return rounded(layer_norm_gradient(d_normed, norm_, own_.norm_weight));
  }

  Matrix heads_backward(const Matrix& d_context) {
    Matrix d_qkv(qkv_.rows(), qkv_.cols());
    for (Eigen::Index head = 0; head < heads(); ++head) {
      const Matrix& p = probabilities_[static_cast<std::size_t>(head)];
      const Matrix dy = d_context.middleCols(head * head_, head_);
      const Matrix dp = rounded(product(dy, transposed(Matrix(part(qkv_, head, 2)))));
      const Matrix d_scores = rounded(softmax_gradient(dp, p) * scale_);
      part(d_qkv, head, 0) = product(d_scores, part(qkv_, head, 1));
      part(d_qkv, head, 1) = product(transposed(d_scores), part(qkv_, head, 0));
      part(d_qkv, head, 2) = product(transposed(p), dy);
    }
    return rounded(std::move(d_qkv));
  }

  const Eigen::Index head_;
  const Scalar scale_;
  const GptDevices devices_;
  Arithmetic& arithmetic_;
  LayerParameters<Matrix> own_;
  LayerParameters<Matrix> gradients_;

  // Values that forward keeps for backward.
  Standardized<Matrix> norm_;
  Matrix normed_;
  Matrix qkv_;
  std::vector<Matrix> probabilities_;  // by head
  Matrix context_;
  Standardized<Matrix> mlp_norm_;
  Matrix mlp_normed_;
  Matrix up_;
  Matrix active_;
};

// y, dx, then the gradients of all parameters.
template <class Arithmetic>
std::vector<typename Arithmetic::Matrix> compute_step(const DenseModel& model, const GptSize& size,
                                                      const GptDevices& devices,
                                                      Arithmetic arithmetic) {
  using Matrix = typename Arithmetic::Matrix;
  std::vector<DenseBlock<Arithmetic>> blocks;
  blocks.reserve(static_cast<std::size_t>(size.layers));
  std::vector<Matrix> results(2);
  Matrix& y = results[0];
  y = to_matrix<Matrix>(model.x);
  for (std::size_t i = 0; i < static_cast<std::size_t>(size.layers); ++i) {
    blocks.emplace_back(
        size, devices, arithmetic,
        std::span(model.parameters).subspan(i * kParametersPerLayer, kParametersPerLayer));
    y = blocks.back().forward(y);
  }
  Matrix& dx = results[1];
  dx = to_matrix<Matrix>(model.gradient);
  for (auto block = blocks.rbegin(); block != blocks.rend(); ++block) dx = block->backward(dx);
  for (auto& block : blocks) {
    for (Matrix* gradient : block.gradients().in_order()) results.push_back(std::move(*gradient));
  }
  return results;
}

// The bound of an element: a few times the largest error of its kind in the samples, at least a
// rounding.
class BoundFromSamples {
 public:
  // Blocks of this many columns are of one kind, then of the next, and so on.
  BoundFromSamples(const RowMajor<double>& exact, std::int64_t block, std::size_t kinds,
                   double rounding)
      : exact_(exact), expected_{exact.rows(), exact.cols(), {}, block, {}} {
    expected_.value.assign(exact.data(), exact.data() + exact.size());
    expected_.bound.resize(kinds);
    widen(exact, rounding);
  }

  void add(const RowMajor<float>& sample) {
    widen(sample.cast<double>() - exact_, kBoundOverSamples);
  }

  Expected take() { return std::move(expected_); }

 private:
  void widen(const RowMajor<double>& errors, double factor) {
    for (Eigen::Index at = 0; at < errors.cols(); at += expected_.block) {
      double& bound =
          expected_.bound[static_cast<std::size_t>(at / expected_.block) % expected_.bound.size()];
      bound =
          std::max(bound, factor * errors.middleCols(at, expected_.block).cwiseAbs().maxCoeff());
    }
  }

  const RowMajor<double>& exact_;
  Expected expected_;
};

}  // namespace

ExpectedStep dense_gpt_step(const DenseModel& model, const GptSize& size, const GptDevices& devices,
                            std::uint64_t seed) {
  const std::vector<RowMajor<double>> exact =
      compute_step(model, size, {.dtype = devices.dtype}, ExactArithmetic());
  std::vector<BoundFromSamples> bounds;
  for (const RowMajor<double>& matrix : exact) {
    const bool is_of_qkv = matrix.cols() == 3 * size.hidden;  // which have three kinds of columns
    bounds.emplace_back(matrix, is_of_qkv ? size.hidden / size.heads : matrix.cols(),
                        is_of_qkv ? 3 : 1, SampledArithmetic::unit_of(devices.dtype));
  }
  for (int i = 0; i < kSamples; ++i) {
    const SampledArithmetic arithmetic =
        i == 0 ? SampledArithmetic(devices.dtype)
               : SampledArithmetic(devices.dtype, seed + static_cast<std::uint64_t>(i));
    const auto sample = compute_step(model, size, devices, arithmetic);
    for (std::size_t k = 0; k < bounds.size(); ++k) bounds[k].add(sample[k]);
  }
  ExpectedStep step{.y = bounds[0].take(), .dx = bounds[1].take(), .gradients = {}};
  for (BoundFromSamples& bound : std::span(bounds).subspan(2)) {
    step.gradients.push_back(bound.take());
  }
  return step;
}

}  // namespace kernbench::benches::tensor_parallel
