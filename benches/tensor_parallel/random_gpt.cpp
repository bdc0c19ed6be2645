#include "benches/bench/exact_integers.h"
#include "benches/tensor_parallel/dense_step.h"

namespace kernbench::benches::tensor_parallel {

namespace {

// Integers from -127 to 127, which every type can hold, times a power of two.
class SmallNumbers {
 public:
  explicit SmallNumbers(std::uint64_t seed) : seed_(scrambled_seed(seed)) {}

  DenseMatrix draw(std::int64_t rows, std::int64_t columns, double unit, double centre = 0) {
    DenseMatrix matrix{rows, columns};
    const auto size = static_cast<std::uint32_t>(rows * columns);
    matrix.elements.reserve(size);
    const std::uint32_t own = scrambled(seed_ ^ ++count_);
    for (std::uint32_t i = 0; i < size; ++i) {
      const auto integer = static_cast<int>(scrambled(own + i) % 255) - 127;
      matrix.elements.push_back(static_cast<float>(centre + integer * unit));
    }
    return matrix;
  }

 private:
  const std::uint32_t seed_;
  std::uint32_t count_ = 0;
};

}  // namespace

DenseModel random_gpt(const GptSize& size, std::uint64_t seed) {
  constexpr double kInput = 0x1p-6;
  constexpr double kGradient = 0x1p-10;
  constexpr double kWeight = 0x1p-12;
  constexpr double kBias = 0x1p-10;
  constexpr double kNorm = 0x1p-7;  // about 1
  const std::int64_t hidden = size.hidden;
  SmallNumbers numbers(seed);
  DenseModel model;
  model.x = numbers.draw(size.sequence, hidden, kInput);
  model.gradient = numbers.draw(size.sequence, hidden, kGradient);
  const auto norm = [&] {
    model.parameters.push_back(numbers.draw(1, hidden, kNorm, 1));
    model.parameters.push_back(numbers.draw(1, hidden, kBias));
  };
  const auto linear = [&](std::int64_t in, std::int64_t out) {
    model.parameters.push_back(numbers.draw(in, out, kWeight));
    model.parameters.push_back(numbers.draw(1, out, kBias));
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
