#include "benches/tensor_parallel/dense_model.h"

#include <cstddef>

#include "benches/bench/exact_integers.h"

namespace kernbench::benches::tensor_parallel {

namespace {

// The number of nonzero elements in each column of a weight, which keeps sums of products small.
constexpr std::int64_t kInColumn = 4;
constexpr std::uint32_t kSparsity = 4;  // of the gradient, one in so many is not 0

// Matrices of numbers that a hash draws.
class Drawing {
 public:
  explicit Drawing(std::uint64_t seed) : seed_(scrambled_seed(seed)) {}

  // -1, 0 or 1.
  DenseMatrix signs(std::int64_t rows, std::int64_t columns) {
    return drawn(rows, columns,
                 [](std::uint32_t bits) { return static_cast<float>(bits % 3) - 1; });
  }
  // -1, 0 or 1, mostly 0: sums of few signs stay exact in small types.
  DenseMatrix few_signs(std::int64_t rows, std::int64_t columns) {
    return drawn(rows, columns, [](std::uint32_t bits) {
      return (bits >> 16) % kSparsity == 0 ? sign(bits) : 0.0F;
    });
  }
  // kInColumn elements of each column are -1 or 1.
  DenseMatrix few_in_column(std::int64_t rows, std::int64_t columns) {
    DenseMatrix matrix{rows, columns};
    matrix.elements.resize(static_cast<std::size_t>(rows * columns));
    const std::uint32_t own = next();
    for (std::int64_t i = 0; i < columns * kInColumn; ++i) {
      const std::uint32_t bits = scrambled(own + static_cast<std::uint32_t>(i));
      const std::int64_t row = (bits >> 1) % rows;
      matrix.elements[static_cast<std::size_t>(row * columns + i / kInColumn)] = sign(bits);
    }
    return matrix;
  }
  // Integers from -127 to 127, which every type can hold, times a power of two.
  DenseMatrix numbers(std::int64_t rows, std::int64_t columns, double unit, double centre = 0) {
    return drawn(rows, columns, [&](std::uint32_t bits) {
      return static_cast<float>(centre + (static_cast<int>(bits % 255) - 127) * unit);
    });
  }

 private:
  static float sign(std::uint32_t bits) { return bits % 2 == 0 ? 1.0F : -1.0F; }

  template <class Draw>
  DenseMatrix drawn(std::int64_t rows, std::int64_t columns, const Draw& draw) {
    DenseMatrix matrix{rows, columns};
    const auto size = static_cast<std::uint32_t>(rows * columns);
    matrix.elements.reserve(size);
    const std::uint32_t own = next();
    for (std::uint32_t i = 0; i < size; ++i) matrix.elements.push_back(draw(scrambled(own + i)));
    return matrix;
  }
  std::uint32_t next() { return scrambled(seed_ ^ ++count_); }

  const std::uint32_t seed_;
  std::uint32_t count_ = 0;
};

}  // namespace

DenseModel integer_mlp(const MlpSize& size, std::uint64_t seed) {
  Drawing draw(seed);
  DenseModel model;
  model.x = draw.signs(size.tokens, size.hidden);
  model.gradient = draw.few_signs(size.tokens, size.hidden);
  model.parameters.push_back(draw.few_in_column(size.hidden, size.ffn));
  model.parameters.push_back(draw.signs(1, size.ffn));
  model.parameters.push_back(draw.few_in_column(size.ffn, size.hidden));
  model.parameters.push_back(draw.signs(1, size.hidden));
  return model;
}

DenseModel random_gpt(const GptSize& size, std::uint64_t seed) {
  constexpr double kInput = 0x1p-6;
  constexpr double kGradient = 0x1p-10;
  constexpr double kWeight = 0x1p-12;
  constexpr double kBias = 0x1p-10;
  constexpr double kNorm = 0x1p-7;  // about 1
  const std::int64_t hidden = size.hidden;
  Drawing draw(seed);
  DenseModel model;
  model.x = draw.numbers(size.sequence, hidden, kInput);
  model.gradient = draw.numbers(size.sequence, hidden, kGradient);
  const auto norm = [&] {
    model.parameters.push_back(draw.numbers(1, hidden, kNorm, 1));
    model.parameters.push_back(draw.numbers(1, hidden, kBias));
  };
  const auto linear = [&](std::int64_t in, std::int64_t out) {
    model.parameters.push_back(draw.numbers(in, out, kWeight));
    model.parameters.push_back(draw.numbers(1, out, kBias));
  };
  for (std::int64_t layer = 0; layer < size.layers; ++layer) {
    norm();
    linear(hidden, 3 * hidden);
    linear(hidden, hidden);
    norm();
    linear(hidden, 4 * hidden);
    linear(4 * hidden, hidden);
  }
  return model;
}

}  // namespace kernbench::benches::tensor_parallel
