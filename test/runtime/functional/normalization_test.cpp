#include <tuple>

#include "runtime/functional/functional.h"
#include "runtime/nn/layers.h"
#include "test/runtime/functional/operators_under_test.h"
#include "test/runtime/functional/reference_operators.h"

namespace kernbench::test::normalization_test {
namespace {

namespace F = nn::functional;

TEST_CASE("layer_norm and rms_norm against plain loops", "[normalization]") {
  OperatorsUnderTest dut;
  const Shard pe = GENERATE(kR, kRow);
  const bool centers = GENERATE(true, false);
  for (const Shape& shape : {Shape{3, 5}, Shape{2, 3, 4}, Shape{0, 3}, Shape{2, 9001}, Shape{6}}) {
    if (shape.rank() == 1 && pe == kRow) continue;  // a vector's rows are its columns
    const std::int64_t n = shape[shape.rank() - 1];
    const Floats x = sixteenths(shape.numel(), 1);
    const Floats w = sixteenths(n, 2);
    const Floats b = sixteenths(n, 3);
    const Tensor on_device = dut.tensor(shape, x, on_pes(pe));
    const Tensor weight = dut.tensor({n}, w, on_pes(kR));
    const Tensor bias = dut.tensor({n}, b, on_pes(kR));
    const Tensor y = centers ? F::layer_norm(on_device, {n}, weight, bias, 0.5)
                             : F::rms_norm(on_device, {n}, weight, 0.5);
    CHECK(y.dp() == on_device.dp());
    Numbers expected;
    for_each_row(exactly(x), w.size(), [&](const Numbers& row) {
      Numbers elements = products(NormalizedRow(row, centers, 0.5).elements, exactly(w));
      for (std::size_t i = 0; i < w.size() && centers; ++i) elements[i] = elements[i] + b[i];
      append(expected, elements);
    });
    check_within(y.to_vector(), expected);
  }
}

TEST_CASE("without parameters rows are only normalized, with PyTorch's eps", "[normalization]") {
  OperatorsUnderTest dut;
  const Tensor x = dut.tensor({1, 2}, {1, -1});
  CHECK(F::layer_norm(x, {2}).to_vector()[0] == Approx(1 / std::sqrt(1 + 1e-5)).epsilon(1e-7));
  const Tensor small = dut.tensor({1, 2}, {0.0001F, -0.0001F});
  CHECK(F::rms_norm(small, {2}).to_vector()[0] ==
        Approx(1e-4 / std::sqrt(1e-8 + std::ldexp(1.0, -23))).epsilon(1e-6));
}

TEST_CASE("rows that PEs share have the same bits as on one", "[normalization]") {
  OperatorsUnderTest dut;
  const bool centers = GENERATE(true, false);
  const auto results = [&](const DPPolicy& rows, const DPPolicy& whole) {
    const Tensor x = dut.tensor({3, 4}, sixteenths(12, 1), rows).requires_grad_();
    const Tensor w = dut.tensor({4}, sixteenths(4, 2), whole);
    const Tensor b = dut.tensor({4}, sixteenths(4, 3), whole);
    const Tensor y = centers ? F::layer_norm(x, {4}, w, b) : F::rms_norm(x, {4}, w);
    y.backward(dut.tensor({3, 4}, sixteenths(12, 5), rows));
    return std::pair(y.to_vector(), x.grad().to_vector());
  };
  CHECK(results(on_pes(kRow), on_pes(kR)) == results(DPPolicy::on_one_pe(), DPPolicy::on_one_pe()));
}

TEST_CASE("gradients of parameters are partial where rows are cut", "[normalization]") {
  OperatorsUnderTest dut;
  const Tensor x = dut.leaf({4, 3}, 1, on_pes(kRow));
  const Tensor w = dut.leaf({3}, 2, on_pes(kR));
  const Tensor b = dut.leaf({3}, 3, on_pes(kR));
  sum(F::layer_norm(x, {3}, w, b)).backward();
  CHECK(x.grad().dp() == on_pes(kRow));
  CHECK(w.grad().dp() == on_pes(kPartial));
  CHECK(b.grad().dp() == on_pes(kPartial));
  CHECK(b.grad().to_vector() == Floats(3, 4));
}

TEST_CASE("a gradient that is a sum over holders stays one", "[normalization]") {
  OperatorsUnderTest dut;
  const auto gradient = [&](const DPPolicy& whole, const DPPolicy& columns) {
    const Tensor x = dut.tensor({2, 4}, sixteenths(8, 1), whole).requires_grad_();
    const Tensor w = dut.tensor({4}, sixteenths(4, 2), whole).requires_grad_();
    const Tensor y = F::softmax(nn::functional::gelu(F::layer_norm(x, {4}, w)));
    sum(matmul(y, dut.leaf({4, 4}, 3, columns))).backward();
    return std::pair(x.grad(), w.grad());
  };
  const auto [x, w] = gradient(on_pes(kR), on_pes(kColumn));
  const auto [one_x, one_w] = gradient(DPPolicy::on_one_pe(), DPPolicy::on_one_pe());
  CHECK(x.dp() == on_pes(kPartial));
  CHECK(w.dp() == on_pes(kPartial));
  for (std::size_t i = 0; i < 8; ++i) {
    CHECK(std::abs(x.to_vector()[i] - one_x.to_vector()[i]) <= std::ldexp(200.0, -24));
  }
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(std::abs(w.to_vector()[i] - one_w.to_vector()[i]) <= std::ldexp(200.0, -24));
  }
}

TEST_CASE("only what needs a gradient is computed", "[normalization]") {
  OperatorsUnderTest dut;
  const Tensor x = dut.leaf({4, 3}, 1);
  const Tensor w = dut.tensor({3}, {1, 2, 3});
  const Tensor y = F::layer_norm(x, {3}, w);
  const std::size_t before = dut.torch.engine().results().size();
  y.backward(dut.tensor({4, 3}, Floats(12, 1)));
  CHECK(dut.torch.engine().results().size() - before == 1);
  CHECK_FALSE(w.grad().defined());
}

TEST_CASE("normalization of f16 is in f32", "[normalization]") {
  OperatorsUnderTest dut;
  // The sum of the squares of these is beyond f16.
  const Tensor x = dut.tensor({1, 2}, {512, -512}, DPPolicy::on_one_pe(), DType::f16);
  CHECK(F::layer_norm(x, {2}).to_vector() == Floats{1, -1});
  CHECK(F::rms_norm(x, {2}).to_vector() == Floats{1, -1});
}

TEST_CASE("the last dimensions are normalized as one", "[normalization]") {
  OperatorsUnderTest dut;
  const Shard pe = GENERATE(kR, kRow);
  const Tensor x = dut.leaf({4, 2, 3}, 1, on_pes(pe));
  const Tensor w = dut.leaf({2, 3}, 2, on_pes(kR));
  const Tensor b = dut.leaf({2, 3}, 3, on_pes(kR));
  const auto compute = [&](const Shape& shape, const Shape& of_parameters) {
    x.zero_grad(), w.zero_grad();
    const Tensor y = F::layer_norm(reshape(x, shape), of_parameters, reshape(w, of_parameters),
                                   reshape(b, of_parameters));
    square(y).sum().backward();
    return std::tuple(y.to_vector(), x.grad().to_vector(), w.grad().to_vector());
  };
  CHECK(compute({4, 2, 3}, {2, 3}) == compute({4, 6}, {6}));
  const nn::LayerNorm norm(dut.torch, Shape{2, 3}, {.dp = on_pes(kR)});
  CHECK(norm->weight.shape() == Shape{2, 3});
  CHECK(norm(x).to_vector() == F::layer_norm(x, {2, 3}).to_vector());
  CHECK_THAT(error([&] { F::layer_norm(x, {}); }), Says("KB-F001", "at least 1-dimensional"));
}

// 2 MiB of scratch; functional.h says how long rows may be.
TEST_CASE("long rows have the same gradients in one pass and in two", "[normalization]") {
  OperatorsUnderTest dut;
  const bool centers = GENERATE(true, false);
  const std::int64_t n = GENERATE(16384, 16385, 65000);  // one pass of the longest, and two
  const Floats of_x = sixteenths(2 * n, 1);
  const Floats of_dy = sixteenths(2 * n, 5);
  const Tensor x = dut.tensor({2, n}, of_x).requires_grad_();
  const Tensor w = dut.tensor({n}, sixteenths(n, 2)).requires_grad_();
  const Tensor b = dut.tensor({n}, sixteenths(n, 3)).requires_grad_();
  const Tensor y = centers ? F::layer_norm(x, {n}, w, b, 0.5) : F::rms_norm(x, {n}, w, 0.5);
  y.backward(dut.tensor({2, n}, of_dy));
  Numbers of_weight(static_cast<std::size_t>(n));
  for (std::size_t row = 0; row < 2; ++row) {
    const Floats elements(of_x.begin() + static_cast<std::ptrdiff_t>(row) * n,
                          of_x.begin() + static_cast<std::ptrdiff_t>(row + 1) * n);
    const Numbers normalized = NormalizedRow(exactly(elements), centers, 0.5).elements;
    for (std::size_t i = 0; i < normalized.size(); ++i) {
      of_weight[i] = of_weight[i] + normalized[i] * of_dy[row * normalized.size() + i];
    }
  }
  check_within(w.grad().to_vector(), of_weight);
  // Alone, the gradient of x is another kernel's.
  const Tensor alone = dut.tensor({2, n}, of_x).requires_grad_();
  const Tensor of_alone = centers ? F::layer_norm(alone, {n}, w.detach(), b.detach(), 0.5)
                                  : F::rms_norm(alone, {n}, w.detach(), 0.5);
  of_alone.backward(dut.tensor({2, n}, of_dy));
  CHECK(x.grad().to_vector() == alone.grad().to_vector());
}

TEST_CASE("normalization refuses what it cannot use", "[normalization]") {
  OperatorsUnderTest dut;
  const Tensor x = dut.leaf({2, 4}, 1, on_pes(kR));
  const Tensor w = dut.leaf({4}, 1, on_pes(kR));
  CHECK_THAT(error([&] {
               F::layer_norm(x, {3, 4});
             }),
             Says("KB-F001",
                  "Given normalized_shape=[3, 4], expected input with shape [*, 3, 4], but got "
                  "input of size[2, 4]"));
  CHECK_THAT(error([&] { F::layer_norm(x, {4}, dut.leaf({3}, 1, on_pes(kR))); }),
             Says("KB-F001",
                  "Expected weight to be of same shape as normalized_shape, but got weight of "
                  "shape [3] and normalized_shape = [4]"));
  CHECK_THAT(error([&] { F::rms_norm(x, {4}, dut.leaf({4}, 1, on_pes(kColumn))); }),
             Says("KB-F003", "every holder needs all of the parameter"));
  CHECK_THAT(error([&] {
               F::layer_norm(dut.leaf({2, 4}, 1, on_pes(kColumn)), {4}, w);
             }),
             Says("KB-F003", "its rows are needed whole"));
  CHECK_THAT(error([&] {
               F::layer_norm(dut.leaf({2, 4}, 1, on_pes(kPartial)), {4}, w);
             }),
             Says("KB-F003", "all_reduce it first"));
}

}  // namespace
}  // namespace kernbench::test::normalization_test
