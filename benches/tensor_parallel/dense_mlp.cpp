
#include "benches/bench/exact_integers.h"
#include "benches/tensor_parallel/dense_arithmetic.h"
#include "benches/tensor_parallel/dense_step.h"
#include "sim_engine/base/error.h"

namespace kernbench::benches::tensor_parallel {

namespace {

using Matrix = RowMajor<float>;

// The number of nonzero elements in each column of a weight, which keeps sums of products small.
constexpr std::int64_t kInColumn = 4;
constexpr std::uint32_t kSparsity = 4;  // of the gradient, one in so many is not 0

Matrix to_matrix(const DenseMatrix& dense) {
  return Eigen::Map<const Matrix>(dense.elements.data(), dense.rows, dense.columns);
}

// Integers drawn by a hash.
class Drawing {
 public:
  explicit Drawing(std::uint64_t seed) : seed_(scrambled_seed(seed)) {}

  // -1, 0 or 1.
  DenseMatrix signs(std::int64_t rows, std::int64_t columns) {
    return drawn(rows, columns, [](std::uint32_t bits) { return sign(bits); });
  }
  // -1, 0 or 1, mostly 0: sums of few signs stay exact in small types.
  DenseMatrix few_signs(std::int64_t rows, std::int64_t columns) {
    return drawn(rows, columns, [](std::uint32_t bits) {
      return (bits >> 16) % kSparsity == 0 ? unit(bits) : 0.0F;
    });
  }
  // kInColumn elements of each column are -1 or 1.
  DenseMatrix weight(std::int64_t rows, std::int64_t columns) {
    DenseMatrix matrix{rows, columns};
    matrix.elements.resize(static_cast<std::size_t>(rows * columns));
    const std::uint32_t own = next();
    for (std::int64_t i = 0; i < columns * kInColumn; ++i) {
      const std::uint32_t bits = scrambled(own + static_cast<std::uint32_t>(i));
      const std::int64_t row = (bits >> 1) % rows;
      matrix.elements[static_cast<std::size_t>(row * columns + i / kInColumn)] = unit(bits);
    }
    return matrix;
  }

 private:
  static float unit(std::uint32_t bits) { return bits % 2 == 0 ? 1.0F : -1.0F; }
  static float sign(std::uint32_t bits) { return static_cast<float>(bits % 3) - 1; }

  template <class Draw>
  DenseMatrix drawn(std::int64_t rows, std::int64_t columns, const Draw& draw) {
    DenseMatrix matrix{rows, columns};
    const auto size = static_cast<std::uint32_t>(rows * columns);
    const std::uint32_t own = next();
    for (std::uint32_t i = 0; i < size; ++i) matrix.elements.push_back(draw(scrambled(own + i)));
    return matrix;
  }
  std::uint32_t next() { return scrambled(seed_ ^ ++count_); }

  const std::uint32_t seed_;
  std::uint32_t count_ = 0;
};

Expected checked(const Matrix& matrix, DType dtype, std::string_view what) {
  const float largest = matrix.size() == 0 ? 0 : matrix.cwiseAbs().maxCoeff();
  if (largest > static_cast<float>(exact_limit(dtype))) {
    throw UsageError("KB-U012",
                     "--set tokens: {} reaches {}, and {} holds integers exactly up to {} only; "
                     "use fewer tokens or another dtype, or check=false",
                     what, largest, name_of(dtype), exact_limit(dtype));
  }
  return {matrix.rows(), matrix.cols(), {matrix.data(), matrix.data() + matrix.size()}};
}

}  // namespace

DenseModel integer_mlp(const MlpSize& size, std::uint64_t seed) {
  Drawing draw(seed);
  DenseModel model;
  model.x = draw.signs(size.tokens, size.hidden);
  model.gradient = draw.few_signs(size.tokens, size.hidden);
  model.parameters.push_back(draw.weight(size.hidden, size.ffn));
  model.parameters.push_back(draw.signs(1, size.ffn));
  model.parameters.push_back(draw.weight(size.ffn, size.hidden));
  model.parameters.push_back(draw.signs(1, size.hidden));
  return model;
}

DenseStep dense_mlp_step(const DenseModel& model, DType dtype) {
  const Matrix x = to_matrix(model.x);
  const Matrix dy = to_matrix(model.gradient);
  const Matrix up = to_matrix(model.parameters[0]);
  const Matrix up_bias = to_matrix(model.parameters[1]);
  const Matrix down = to_matrix(model.parameters[2]);
  const Matrix down_bias = to_matrix(model.parameters[3]);

  const Matrix h = (product(x, up).rowwise() + up_bias.row(0)).cwiseMax(0.0F);
  const Matrix y = product(h, down).rowwise() + down_bias.row(0);
  const Matrix d_active = product(dy, transposed(down));
  const Matrix dh = (h.array() > 0).select(d_active, 0.0F);
  DenseStep step;
  step.y = checked(y, dtype, "y");
  step.dx = checked(product(dh, transposed(up)), dtype, "the gradient of x");
  step.gradients.push_back(checked(product(transposed(x), dh), dtype, "a weight's gradient"));
  step.gradients.push_back(checked(dh.colwise().sum(), dtype, "a bias' gradient"));
  step.gradients.push_back(checked(product(transposed(h), dy), dtype, "a weight's gradient"));
  step.gradients.push_back(checked(dy.colwise().sum(), dtype, "a bias' gradient"));
  return step;
}

}  // namespace kernbench::benches::tensor_parallel
