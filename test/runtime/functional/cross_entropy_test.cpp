#include "runtime/functional/cross_entropy.h"

#include "test/runtime/functional/operators_under_test.h"

namespace kernbench::test {
namespace {

namespace F = nn::functional;
using F::Reduction;

constexpr Shard kR = Shard::replicate;
constexpr Shard kRow = Shard::row_wise;

std::vector<double> losses(const Floats& logits, const Floats& targets, double smoothing) {
  std::vector<double> result;
  const std::size_t classes = logits.size() / targets.size();
  for (std::size_t row = 0; row < targets.size(); ++row) {
    double exponentials = 0;
    double total = 0;
    for (std::size_t i = 0; i < classes; ++i) {
      exponentials += std::exp(static_cast<double>(logits[row * classes + i]));
      total += logits[row * classes + i];
    }
    const auto target = static_cast<std::size_t>(targets[row]);
    result.push_back(std::log(exponentials) - (1 - smoothing) * logits[row * classes + target] -
                     smoothing * total / static_cast<double>(classes));
  }
  return result;
}

TEST_CASE("cross_entropy against plain loops, and its reductions", "[cross_entropy]") {
  OperatorsUnderTest dut;
  const Shard pe = GENERATE(kR, kRow);
  const double smoothing = GENERATE(0.0, 0.1, 1.0);
  const Floats logits = sixteenths(5 * 7, 1);
  const Floats targets = {0, 6, 3, 3, 1};
  const Tensor x = dut.tensor({5, 7}, logits, on_pes(pe));
  const Tensor y = dut.tensor({5}, targets, on_pes(pe));
  const std::vector<double> expected = losses(logits, targets, smoothing);
  double total = 0;
  for (const double loss : expected) total += loss;
  const double bound = std::ldexp(20.0, -24);
  const Floats each = F::cross_entropy(x, y, {smoothing, Reduction::none}).to_vector();
  for (std::size_t i = 0; i < 5; ++i) CHECK(std::abs(each[i] - expected[i]) <= bound);
  const Tensor mean = F::cross_entropy(x, y, {.label_smoothing = smoothing});
  CHECK(std::abs(mean.item() - total / 5) <= bound);
  CHECK(mean.dp().pe == (pe == kR ? kR : Shard::partial));
  CHECK(std::abs(F::cross_entropy(x, y, {smoothing, Reduction::sum}).item() - total) <= 5 * bound);
}

TEST_CASE("cross_entropy has PyTorch's worked numbers", "[cross_entropy]") {
  OperatorsUnderTest dut;
  // log(e + e^2 + e^3) - 3 and log(e^.5 + e^-.5 + e) - .5
  const Tensor x = dut.tensor({2, 3}, {1, 2, 3, 0.5F, -0.5F, 1});
  const double first = std::log(std::exp(1.0) + std::exp(2.0) + std::exp(3.0)) - 3;
  const double second = std::log(std::exp(0.5) + std::exp(-0.5) + std::exp(1.0)) - 0.5;
  CHECK(F::cross_entropy(x, dut.tensor({2}, {2, 0})).item() ==
        Approx((first + second) / 2).epsilon(1e-6));
}

// The third derivative of log(sum(exp)) is below 1/4, and l is the mean of three.
TEST_CASE("the gradient of cross_entropy is its slope", "[cross_entropy]") {
  OperatorsUnderTest dut;
  const Shard pe = GENERATE(kR, kRow);
  const double smoothing = GENERATE(0.0, 0.25);
  const Reduction reduction = GENERATE(Reduction::mean, Reduction::sum, Reduction::none);
  const Tensor targets = dut.tensor({3}, {1, 0, 3}, on_pes(pe));
  check_gradients(dut,
                  [=](const std::vector<Tensor>& in) {
                    return F::cross_entropy(in[0], targets, {smoothing, reduction});
                  },
                  {dut.tensor({3, 4}, sixteenths(12, 1), on_pes(pe))},
                  {.third_derivative = 0.25, .rounding = 20});
}

TEST_CASE("as many classes as rows are not confused", "[cross_entropy]") {
  OperatorsUnderTest dut;
  const Tensor x = dut.tensor({2, 2}, {0, 0, 0, 0}).requires_grad_();
  F::cross_entropy(x, dut.tensor({2}, {1, 1}), {.reduction = Reduction::none})
      .backward(dut.tensor({2}, {2, 4}));
  CHECK(x.grad().to_vector() == Floats{1, -1, 2, -2});
}

TEST_CASE("large logits do not overflow, and those of f16 give a loss in f32", "[cross_entropy]") {
  OperatorsUnderTest dut;
  const Tensor x =
      dut.tensor({1, 2}, {1000, -1000}, DPPolicy::replicated(), DType::f16).requires_grad_();
  const Tensor loss = F::cross_entropy(x, dut.tensor({1}, {1}));
  CHECK(loss.dtype() == DType::f32);
  CHECK(loss.item() == 2000);
  loss.backward();
  CHECK(x.grad().dtype() == DType::f16);
  CHECK(x.grad().to_vector() == Floats{1, -1});
}

// Their difference alone counts; f32 has seven digits of 30000.
TEST_CASE("the loss of large logits that are close has all its digits", "[cross_entropy]") {
  OperatorsUnderTest dut;
  const double smoothing = GENERATE(0.0, 0.1);
  const Tensor x = dut.tensor({1, 2}, {30'000, 29'999});
  const double expected = std::log1p(std::exp(-1.0)) + (1 - smoothing) + smoothing / 2;
  const Tensor loss = F::cross_entropy(x, dut.tensor({1}, {1}), {.label_smoothing = smoothing});
  CHECK(std::abs(loss.item() - expected) <= std::ldexp(4.0, -24) * 2);
}

TEST_CASE("cross_entropy refuses what it cannot use", "[cross_entropy]") {
  OperatorsUnderTest dut;
  const auto error = [](const Tensor& x, const Tensor& y, double smoothing = 0) {
    return error_of<DeviceError>([&] { F::cross_entropy(x, y, {smoothing}); });
  };
  const Tensor x = dut.leaf({2, 3}, 1, on_pes(kR));
  const Tensor y = dut.leaf({2}, 1, on_pes(kR));
  CHECK(error(x, dut.leaf({3}, 1, on_pes(kR))).starts_with("[KB-F001] cross_entropy: logits"));
  CHECK(error(x, dut.leaf({2}, 1, on_pes(kR), DType::f16)).starts_with("[KB-F002]"));
  CHECK(error(x, dut.leaf({2}, 1, on_pes(kRow))).find("targets must be cut as the rows are") !=
        std::string::npos);
  CHECK(
      error(dut.leaf({2, 3}, 1, on_pes(Shard::column_wise)), y).find("its rows are needed whole") !=
      std::string::npos);
  CHECK(error(x, y, 2) ==
        "[KB-F001] cross_entropy: label_smoothing must be between 0.0 and 1.0. Got: 2");
}

}  // namespace
}  // namespace kernbench::test
