// Losses as modules, and small layers.

#include "runtime/nn/layers.h"
#include "test/runtime/functional/operators_under_test.h"

namespace kernbench::test::loss_test {
namespace {

namespace F = nn::functional;

TEST_CASE("modules of losses compute what their functions do", "[nn][loss]") {
  OperatorsUnderTest dut;
  const Tensor x = dut.leaf({3, 4}, 1);
  const Tensor y = dut.leaf({3, 4}, 2).detach();
  const Tensor classes = dut.tensor({3}, {1, -100, 3}, DPPolicy::on_one_pe(), DType::i64);
  const auto same = [](const Tensor& a, const Tensor& b) {
    CHECK(a.requires_grad());
    CHECK(a.to_vector() == b.to_vector());
  };
  const nn::MSELoss mse;
  same(mse(x, y), F::mse_loss(x, y));
  same(nn::MSELoss(nn::Reduction::sum)(x, y), F::mse_loss(x, y, nn::Reduction::sum));
  same(nn::L1Loss()(x, y), F::l1_loss(x, y));
  const nn::CrossEntropyLoss criterion;
  same(criterion(x, classes), F::cross_entropy(x, classes));
  same(nn::CrossEntropyLoss({.label_smoothing = 0.1})(x, classes),
       F::cross_entropy(x, classes, {.label_smoothing = 0.1}));
  same(nn::NLLLoss()(x.log_softmax(1), classes), F::nll_loss(x.log_softmax(1), classes));
  same(nn::BCEWithLogitsLoss()(x, (y > 0).to(DType::f32)),
       F::binary_cross_entropy_with_logits(x, (y > 0).to(DType::f32)));
  CHECK(criterion->parameters().empty());
}

TEST_CASE("binary cross entropy and smooth l1 are those of doubles", "[nn][loss]") {
  OperatorsUnderTest dut;
  const Floats of_x{-3, 0.5F, 2, 90, -90, 0.25F};
  const Floats of_t{0, 1, 0.25F, 1, 1, 0};
  const Tensor x = dut.tensor({6}, of_x).requires_grad_();
  const Tensor t = dut.tensor({6}, of_t);
  const Floats bce = F::binary_cross_entropy_with_logits(x, t, nn::Reduction::none).to_vector();
  F::binary_cross_entropy_with_logits(x, t, nn::Reduction::sum).backward();
  const Floats smooth = F::smooth_l1_loss(x, t, nn::Reduction::none, 0.5).to_vector();
  for (std::size_t i = 0; i < of_x.size(); ++i) {
    const double n = of_x[i];
    const double wanted = std::log1p(std::exp(-std::abs(n))) + std::max(n, 0.0) - n * of_t[i];
    CHECK(std::abs(bce[i] - wanted) <= 8 * 0x1p-24 * std::max(std::abs(wanted), 1.0));
    const double slope = 1 / (1 + std::exp(-n)) - of_t[i];
    CHECK(std::abs(x.grad().to_vector()[i] - slope) <= 8 * 0x1p-24);
    const double distance = std::abs(n - of_t[i]);
    CHECK(smooth[i] == (distance < 0.5 ? distance * distance : distance - 0.25));
  }
  CHECK_THAT(error([&] { F::binary_cross_entropy_with_logits(x, t[0]); }),
             Says("KB-F001", "must be the same as input size"));
  CHECK_THAT(error([&] { F::smooth_l1_loss(x, t, nn::Reduction::mean, -1); }),
             Says("KB-F001", "beta"));
  CHECK(F::smooth_l1_loss(x, t, nn::Reduction::none, 0).to_vector() ==
        F::l1_loss(x, t, nn::Reduction::none).to_vector());
}

TEST_CASE("binary cross entropy keeps its digits where it is small", "[nn][loss]") {
  const DType dtype = GENERATE(DType::f16, DType::bf16, DType::f32);
  const double unit = dtype == DType::f32 ? 0x1p-24 : dtype == DType::f16 ? 0x1p-11 : 0x1p-8;
  OperatorsUnderTest dut;
  const Tensor x = dut.tensor({3}, {-5, 5, 0}, DPPolicy::on_one_pe(), dtype).requires_grad_();
  const Tensor t = dut.tensor({3}, {0, 1, 0.25F}, DPPolicy::on_one_pe(), dtype);
  const Tensor y = F::binary_cross_entropy_with_logits(x, t, nn::Reduction::none);
  y.sum().backward();
  const double small = std::log1p(std::exp(-5.0));
  const std::vector<double> wanted{small, small, std::log(2.0)};
  const double slope = 1 / (1 + std::exp(5.0));
  const std::vector<double> slopes{slope, -slope, 0.25};  // sigmoid(x) - t
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    CHECK(std::abs(y.to_vector()[i] - wanted[i]) <= 8 * unit * wanted[i]);
    CHECK(std::abs(x.grad().to_vector()[i] - slopes[i]) <= 8 * unit * std::abs(slopes[i]));
  }
}

// The figures are those of torch 1.13.1.
TEST_CASE("losses of probabilities and of directions are torch's", "[nn][loss]") {
  namespace F = nn::functional;
  OperatorsUnderTest dut;
  const Tensor p = dut.tensor({3}, {0.25F, 1, 0.5F}).requires_grad_();
  const Tensor t = dut.tensor({3}, {1, 0, 0.5F});
  const Tensor each = F::binary_cross_entropy(p, t, F::Reduction::none);
  CHECK(std::abs(each.at({0}) - 1.3862944F) <= 0x1p-22F);
  CHECK(each.at({1}) == 100);
  each.sum().backward();
  CHECK(std::abs(p.grad().at({0}) + 4) <= 0x1p-21F);
  CHECK(p.grad().at({2}) == 0);
  const Tensor q = dut.tensor({2, 2}, {0, 1, 0.5F, 0.5F});
  const Tensor kl =
      F::kl_div(dut.tensor({2, 2}, {-1, -1, -1, -1}), q, {.reduction = F::Reduction::batchmean});
  CHECK(std::abs(kl.item() - (2 - 0.6931472F) / 2) <= 0x1p-22F);
  CHECK(F::huber_loss(dut.tensor({2}, {0, 0}), dut.tensor({2}, {0.5F, 3}), F::Reduction::sum, 2)
            .item() == 4.125F);
  const Tensor x = dut.tensor({2, 2}, {3, 4, 0, 0});
  CHECK(F::normalize(x, {.dim = -1}).to_vector() == Floats{0.6F, 0.8F, 0, 0});
  CHECK(F::cosine_similarity(x, dut.tensor({2, 2}, {3, 4, 1, 1})).at({1}) == 0);
  CHECK_THAT(error([&] { (void)F::mse_loss(p, t, F::Reduction::batchmean); }), Says("KB-F001"));
}

TEST_CASE("layers without parameters are modules too", "[nn]") {
  OperatorsUnderTest dut;
  const Tensor x = dut.leaf({2, 3, 4}, 1);
  CHECK(nn::Flatten()(x).shape() == Shape{2, 12});
  CHECK(nn::Identity()(x).storage() == x.storage());
  CHECK(nn::Softmax(-1)(x).to_vector() == x.softmax(-1).to_vector());
  CHECK(nn::LogSoftmax(1)(x).to_vector() == x.log_softmax(1).to_vector());
  const nn::Sequential model(nn::Flatten(), nn::Linear(dut.torch, 12, 3), nn::LogSoftmax(1));
  CHECK(model(x.redistribute(DPPolicy{})).shape() == Shape{2, 3});
}

}  // namespace
}  // namespace kernbench::test::loss_test
