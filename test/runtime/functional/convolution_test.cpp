// Convolutions, pooling, and normalization of channels; the figures are those of torch 1.13.1 in
// f64, and exact in f32 where all sums are.

#include "runtime/nn/convolution.h"

#include "runtime/nn/layers.h"
#include "test/runtime/functional/operators_under_test.h"

namespace kernbench::test::convolution_test {
namespace {

namespace F = nn::functional;

// (((a i + b) mod m) - o) / 8
Floats grid(std::int64_t count, int a = 29, int b = 7, int m = 33, int o = 16) {
  Floats elements;
  for (std::int64_t i = 0; i < count; ++i) {
    elements.push_back(static_cast<float>((a * i + b) % m - o) / 8);
  }
  return elements;
}

double squares(const Tensor& x) {
  double sum = 0;
  for (const float element : x.to_vector()) sum += static_cast<double>(element) * element;
  return sum;
}

struct Case {
  F::ConvOptions options;
  Shape shape;
  double sum, of_y, of_x, of_weight, of_bias;  // the last four of squares
};

TEST_CASE("convolutions and their gradients are torch's", "[convolution]") {
  OperatorsUnderTest dut;
  const std::vector<Case> cases{
      {{}, {2, 4, 3, 5}, 58.453125, 2145.177978515625, 6005.9375, 4905, 14400},
      {{.stride = 2, .padding = 1},
       {2, 4, 3, 4},
       20.671875,
       1107.023681640625,
       5776.5625,
       5636.640625,
       9030},
      {{.padding = {1, 0}, .dilation = {1, 2}},
       {2, 4, 5, 4},
       73.890625,
       3894.445068359375,
       9638.125,
       6323.6875,
       25600},
      {{.stride = {1, 2}, .groups = 2},
       {2, 4, 3, 3},
       18.84375,
       638.6806640625,
       1321.640625,
       3132.375,
       4979}};
  for (const DPPolicy& dp : {DPPolicy::on_one_pe(), on_pes(kR), on_pes(kRow)}) {
    for (const Case& wanted : cases) {
      const std::int64_t groups = wanted.options.groups;
      const bool is_cut = dp == on_pes(kRow);
      if (is_cut && groups > 1) continue;
      const DPPolicy whole = is_cut ? on_pes(kR) : dp;
      const Tensor x = dut.tensor({2, 4, 5, 6}, grid(240), dp).requires_grad_();
      const Tensor weight =
          dut.tensor({4, 4 / groups, 3, 2}, grid(96 / groups, 29, 3, 17, 8), whole)
              .requires_grad_();
      const Tensor bias = dut.tensor({4}, grid(4, 29, 1), whole).requires_grad_();
      const Tensor y = F::conv2d(x, weight, bias, wanted.options);
      CHECK(y.shape() == wanted.shape);
      double sum = 0;
      Floats gradient;
      for (const float element : y.to_vector()) {
        gradient.push_back(static_cast<float>(gradient.size() % 5));
        sum += element;
      }
      CHECK(sum == wanted.sum);
      CHECK(squares(y) == wanted.of_y);
      y.backward(dut.tensor(y.shape(), gradient, y.dp()));
      CHECK(squares(x.grad()) == wanted.of_x);
      CHECK(squares(weight.grad()) == wanted.of_weight);
      CHECK(squares(bias.grad()) == wanted.of_bias);
    }
  }
}

TEST_CASE("a convolution of a sequence is one of an image of one row", "[convolution]") {
  OperatorsUnderTest dut;
  const DType dtype = GENERATE(DType::f32, DType::f16, DType::bf16);
  const DPPolicy one = DPPolicy::on_one_pe();
  const Tensor x = dut.tensor({1, 2, 6}, small_integers(12, 1), one, dtype);
  const Tensor weight = dut.tensor({2, 1, 3}, small_integers(6, 2), one, dtype);
  const F::ConvOptions options{.padding = 2, .groups = 2};
  const Tensor y = F::conv1d(x, weight, {}, options);
  REQUIRE(y.shape() == Shape{1, 2, 8});
  for (std::int64_t c = 0; c < 2; ++c) {
    for (std::int64_t i = 0; i < 8; ++i) {
      float wanted = 0;
      for (std::int64_t k = 0; k < 3; ++k) {
        const std::int64_t at = i + k - 2;
        if (at >= 0 && at < 6) wanted += x.at({0, c, at}) * weight.at({c, 0, k});
      }
      CHECK(y.at({0, c, i}) == wanted);
    }
  }
}

TEST_CASE("windows are a view, and give back the sums of their gradients", "[convolution]") {
  OperatorsUnderTest dut;
  const Tensor x = dut.tensor({2, 5}, small_integers(10, 1)).requires_grad_();
  const Tensor windows = x.unfold(1, 3, 2);
  CHECK(windows.shape() == Shape{2, 2, 3});
  CHECK(windows.is_alias_of(x));
  CHECK(windows.at({1, 1, 0}) == x.at({1, 2}));
  windows.sum().backward();
  CHECK(x.grad().to_vector() == Floats{1, 1, 2, 1, 1, 1, 1, 2, 1, 1});
  const Tensor image = dut.tensor({1, 1, 4, 4}, small_integers(16, 2));
  CHECK(F::unfold(image, 2, {.stride = 2}).shape() == Shape{1, 4, 4});
  CHECK_THAT(error([&] { (void)x.unfold(1, 6, 1); }), Says("KB-F001", "but size is 6"));
  CHECK(unflatten(x, 1, {-1, 5}).shape() == Shape{2, 1, 5});
}

TEST_CASE("padding surrounds, or takes away, and gradients come from within", "[convolution]") {
  OperatorsUnderTest dut;
  const Tensor x = dut.tensor({2, 2}, {1, 2, 3, 4}).requires_grad_();
  const Tensor y = F::pad(x, {1, 0, 0, 1}, 9);
  CHECK(y.to_vector() == Floats{9, 1, 2, 9, 3, 4, 9, 9, 9});
  (y * y).sum().backward();
  CHECK(x.grad().to_vector() == Floats{2, 4, 6, 8});
  CHECK(F::pad(x, {-1, 0}).to_vector() == Floats{2, 4});
  CHECK_THAT(error([&] { (void)F::pad(x, {1}); }), Says("KB-F001", "divisible by two"));
}

TEST_CASE("pooling takes the largest, or the mean, of each window", "[convolution]") {
  OperatorsUnderTest dut;
  const Tensor x =
      dut.tensor({1, 1, 4, 4}, {1, 5, 2, 0, 3, 5, 8, 8, 0, 0, 1, 2, 0, 0, 4, 3}).requires_grad_();
  const Tensor most = nn::MaxPool2d(2)(x);
  CHECK(most.to_vector() == Floats{5, 8, 0, 4});
  most.sum().backward();  // of equal ones the first
  CHECK(x.grad().to_vector() == Floats{0, 1, 0, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 0, 1, 0});
  CHECK(F::max_pool2d(-x, 3, {.stride = 2, .padding = 1}).to_vector() == Floats{-1, 0, 0, 0});
  CHECK(F::avg_pool2d(x, 2).to_vector() == Floats{3.5, 4.5, 0, 2.5});
  CHECK(F::adaptive_avg_pool2d(x, {1, 2}).to_vector() == Floats{1.75, 3.5});
  // Rows 0 to 1, 1 to 2 and 2 to 3 of four.
  const Tensor uneven = F::adaptive_avg_pool2d(x, {3, 1});
  CHECK(uneven.to_vector() == Floats{4, 3.375, 1.25});
  x.zero_grad();
  uneven.sum().backward();
  CHECK(x.grad().to_vector() == Floats{0.125, 0.125, 0.125, 0.125, 0.25, 0.25, 0.25, 0.25, 0.25,
                                       0.25, 0.25, 0.25, 0.125, 0.125, 0.125, 0.125});
  CHECK(F::adaptive_avg_pool2d(dut.tensor({1, 1, 2}, {1, 5}), {2, 3}).to_vector() ==
        Floats{1, 3, 5, 1, 3, 5});
  CHECK_THAT(error([&] { (void)F::adaptive_avg_pool2d(x, -1); }),
             Says("KB-F001", "elements of output_size must be greater than or equal to 0"));
}

TEST_CASE("a sample without a batch is a batch of one", "[convolution]") {
  OperatorsUnderTest dut;
  const Tensor x = dut.leaf({2, 5, 4}, 1);
  const Tensor w = dut.leaf({3, 2, 2, 3}, 2);
  const Tensor b = dut.leaf({3}, 3);
  const auto check = [&](const auto& function) {
    const Tensor y = function(x);
    const Tensor wanted = function(x.unsqueeze(0));
    CHECK(y.shape() == wanted.squeeze(0).shape());
    CHECK(y.to_vector() == wanted.to_vector());
    x.zero_grad();
    y.sum().backward();
    const Floats slopes = x.grad().to_vector();
    x.zero_grad();
    wanted.sum().backward();
    CHECK(x.grad().to_vector() == slopes);
  };
  check([&](const Tensor& of) { return F::conv2d(of, w, b, {.stride = 2, .padding = 1}); });
  check([&](const Tensor& of) { return F::max_pool2d(of, 2); });
  check([&](const Tensor& of) { return F::avg_pool2d(of, 2); });
  check([&](const Tensor& of) { return F::adaptive_avg_pool2d(of, {2, 3}); });
  check([&](const Tensor& of) { return F::unfold(of, 2); });
  check(
      [&](const Tensor& of) { return F::conv1d(of.flatten(-2), w.flatten(-2), b, {.stride = 2}); });
  CHECK_THAT(error([&] { (void)F::conv2d(x[0], w); }),
             Says("KB-F001",
                  "Expected 3D (unbatched) or 4D (batched) input to conv2d, but got input of size: "
                  "[5, 4]"));
}

void check_near(const Tensor& x, const Floats& wanted) {
  const Floats is = x.to_vector();
  REQUIRE(is.size() == wanted.size());
  for (std::size_t i = 0; i < is.size(); ++i) CHECK(std::abs(is[i] - wanted[i]) <= 4 * 0x1p-23F);
}

TEST_CASE("batches are normalized as in torch, and their statistics are kept", "[convolution]") {
  OperatorsUnderTest dut;
  nn::BatchNorm1d norm(dut.torch, 3, TensorOptions{.dp = DPPolicy::on_one_pe()});
  const Tensor x = dut.tensor({2, 3}, {1, 2, 4, 3, -1, 2});
  const Tensor y = norm(x);
  check_near(y, {-0.999995F, 0.999997778F, 0.999995F, 0.999995F, -0.999997778F, -0.999995F});
  check_near(norm->running_mean, {0.2F, 0.05F, 0.3F});
  check_near(norm->running_var, {1.1F, 1.35F, 1.1F});
  CHECK(norm->num_batches_tracked.item<int>() == 1);
  y.sum().backward();
  CHECK(norm->bias.grad().to_vector() == Floats{2, 2, 2});
  norm->eval();
  check_near(norm(x)[0], {(1 - 0.2F) / std::sqrt(1.10001F), (2 - 0.05F) / std::sqrt(1.35001F),
                          (4 - 0.3F) / std::sqrt(1.10001F)});
  CHECK(norm->state_dict().size() == 5);
  CHECK_THAT(error([&] { (void)F::batch_norm(x.narrow(0, 0, 1), {}, {}, {.training = true}); }),
             Says("KB-F001", "Expected more than 1 value per channel when training"));
}

TEST_CASE("the gradient of a normalized batch is that of finite differences", "[convolution]") {
  OperatorsUnderTest dut;
  const Floats elements{1, 2, 4, 3, -1, 2.5F, 0.5F, 1.5F};
  const Floats factors{1, -2, 3, 0.5F, 2, 1, -1, 4};
  const auto loss = [&](const std::vector<double>& x) {  // [4, 2]
    double sum = 0;
    for (std::size_t c = 0; c < 2; ++c) {
      double mean = 0;
      double variance = 0;
      for (std::size_t i = 0; i < 4; ++i) mean += x[2 * i + c] / 4;
      for (std::size_t i = 0; i < 4; ++i) variance += std::pow(x[2 * i + c] - mean, 2) / 4;
      for (std::size_t i = 0; i < 4; ++i) {
        sum += factors[2 * i + c] * (x[2 * i + c] - mean) / std::sqrt(variance + 1e-5);
      }
    }
    return sum;
  };
  const Tensor x = dut.tensor({4, 2}, elements).requires_grad_();
  (F::batch_norm(x, {}, {}, {.training = true}) * dut.tensor({4, 2}, factors)).sum().backward();
  for (std::size_t i = 0; i < 8; ++i) {
    std::vector<double> above(elements.begin(), elements.end());
    std::vector<double> below = above;
    above[i] += 1e-5;
    below[i] -= 1e-5;
    CHECK(std::abs(x.grad().to_vector()[i] - (loss(above) - loss(below)) / 2e-5) <= 1e-5);
  }
}

TEST_CASE("groups of channels are normalized together", "[convolution]") {
  OperatorsUnderTest dut;
  const Tensor x = dut.tensor({2, 4, 3}, small_integers(24, 1)).requires_grad_();
  nn::GroupNorm norm(dut.torch, 2, 4, TensorOptions{.dp = DPPolicy::on_one_pe()});
  CHECK(norm(x).equal(F::layer_norm(x.reshape({4, 6}), {6}).reshape({2, 4, 3})));
  CHECK_THAT(error([&] { (void)F::group_norm(x, 3); }), Says("KB-F001", "divisible by num_groups"));
}

TEST_CASE("a block of a ResNet is a module like others", "[convolution]") {
  OperatorsUnderTest dut;
  const TensorOptions one{.dp = DPPolicy::on_one_pe()};
  nn::Sequential block(
      nn::Conv2d(dut.torch, nn::Conv2dOptions(3, 8, 3).stride(2).padding(1).bias(false), one),
      nn::BatchNorm2d(dut.torch, 8, one), nn::ReLU(), nn::AdaptiveAvgPool2d(1), nn::Flatten(),
      nn::Linear(dut.torch, 8, 4, one));
  CHECK(block->parameters().size() == 5);
  const Tensor y = block(dut.torch.randn({2, 3, 8, 8}, one));
  CHECK(y.shape() == Shape{2, 4});
  y.square().sum().backward();
  for (const Tensor& parameter : block->parameters()) CHECK(parameter.grad().defined());
  CHECK_THAT(error_of<CollectiveError>(
                 [&] { (void)nn::Conv2d(dut.torch, nn::Conv2dOptions(3, 8, 3).groups(2), one); }),
             Says("KB-A010", "must be divisible by groups"));
}

}  // namespace
}  // namespace kernbench::test::convolution_test
