#include "runtime/optim/optimizer.h"

#include <cmath>
#include <limits>
#include <memory>

#include "runtime/nn/layers.h"
#include "test/runtime/functional/operators_under_test.h"
#include "test/support/torch_training.h"

namespace kernbench::test::optimizer_test {
namespace {

using optim::AdamOptions;
using optim::AdamWOptions;
using optim::SGDOptions;

using MakeOptimizer =
    std::function<std::unique_ptr<optim::Optimizer>(const std::vector<Tensor>& params)>;

template <class Optimizer, class Options>
MakeOptimizer maker(const Options& options) {
  return [options](const std::vector<Tensor>& params) {
    return std::make_unique<Optimizer>(params, options);
  };
}

// The model, its weights and its data are those of test/golden/torch_training.py.
class Mlp {
 public:
  Mlp(OperatorsUnderTest& dut, const DPPolicy& dp)
      : dut_(dut),
        dp_(dp),
        model_(nn::Linear(dut.torch, 8, 16, {.dp = dp}), nn::ReLU(),
               nn::Linear(dut.torch, 16, 16, {.dp = dp}), nn::ReLU(),
               nn::Linear(dut.torch, 16, 4, {.dp = dp})) {
    const NoGradGuard no_grad(dut.torch);
    std::int64_t q = 0;
    for (Tensor parameter : model_->parameters()) {
      Floats elements;
      for (std::int64_t j = 0; j < parameter.numel(); ++j) {
        elements.push_back(static_cast<float>((7 * j + 11 * q + 3) % 17 - 8) / 32);
      }
      parameter.copy_(RuntimeContext::tensor(elements, parameter.shape()));
      ++q;
    }
  }

  std::vector<Tensor> parameters() const { return model_->parameters(); }

  TorchStep step(optim::Optimizer& optimizer, std::int64_t t, double clip) {
    const Tensor x = dut_.tensor({4, 8}, grid(8, 13 * t, 5, 3, 13, 6, 8), dp_);
    const Tensor y = dut_.tensor({4, 4}, grid(4, 7 * t, 3, 5, 11, 5, 4), dp_);
    optimizer.zero_grad();
    const Tensor loss = nn::functional::mse_loss(model_(x), y);
    loss.backward();
    TorchStep is;
    is.norm = nn::utils::clip_grad_norm_(parameters(), clip);
    optimizer.step();
    is.loss = loss.item<double>();
    for (const Tensor& parameter : parameters()) {
      for (const float w : parameter.to_vector()) {
        is.sum += w;
        is.squares += static_cast<double>(w) * w;
      }
    }
    return is;
  }

 private:
  static Floats grid(std::int64_t columns, std::int64_t first, std::int64_t by_row,
                     std::int64_t by_column, std::int64_t modulus, std::int64_t offset,
                     float divisor) {
    Floats elements;
    for (std::int64_t n = 0; n < 4; ++n) {
      for (std::int64_t i = 0; i < columns; ++i) {
        elements.push_back(
            static_cast<float>((first + by_row * n + by_column * i) % modulus - offset) / divisor);
      }
    }
    return elements;
  }

  OperatorsUnderTest& dut_;
  const DPPolicy dp_;
  nn::Sequential model_;
};

TEST_CASE("optimizers step as torch's do", "[optim]") {
  struct Case {
    std::string name;
    MakeOptimizer make;
    double clip = 1e9;
  };
  const std::vector<Case> cases = {
      {"sgd", maker<optim::SGD>(SGDOptions(0.1))},
      {"momentum",
       maker<optim::SGD>(SGDOptions(0.1).momentum(0.9).dampening(0.1).weight_decay(0.01))},
      {"nesterov",
       maker<optim::SGD>(SGDOptions(0.1).momentum(0.9).nesterov(true).weight_decay(0.01))},
      {"sgd-maximize",
       maker<optim::SGD>(SGDOptions(0.01).momentum(0.5).weight_decay(0.01).maximize(true))},
      {"adam-amsgrad", maker<optim::Adam>(AdamOptions(0.01).betas({0.5, 0.6}).amsgrad(true))},
      {"adamw-amsgrad",
       maker<optim::AdamW>(AdamWOptions(0.01).betas({0.5, 0.6}).amsgrad(true).maximize(true))},
      {"adam", maker<optim::Adam>(AdamOptions(0.01))},
      {"adam-decay", maker<optim::Adam>(AdamOptions(0.01).weight_decay(0.1))},
      {"adamw", maker<optim::AdamW>(AdamWOptions(0.01))},
      {"adamw-decay",
       maker<optim::AdamW>(AdamWOptions(0.01).betas({0.8, 0.95}).eps(1e-6).weight_decay(0.1))},
      {"adamw-clip", maker<optim::AdamW>(AdamWOptions(0.01)), 0.25}};
  OperatorsUnderTest dut;
  const DPPolicy dp = GENERATE(DPPolicy::on_one_pe(), on_pes(kR));
  for (const auto& [name, make, clip] : cases) {
    Mlp mlp(dut, dp);
    const auto optimizer = make(mlp.parameters());
    std::int64_t t = 0;
    for (const TorchStep& torch : torch_steps(name)) {
      INFO(name << " step " << t);
      const TorchStep is = mlp.step(*optimizer, t++, clip);
      CHECK(std::abs(is.loss - torch.loss) <= 2e-6 * torch.loss);
      CHECK(std::abs(is.norm - torch.norm) <= 2e-6 * torch.norm);
      CHECK(std::abs(is.squares - torch.squares) <= 2e-6 * torch.squares);
    }
  }
}

TEST_CASE("one kernel updates all parameters of a type and of the same holders", "[optim]") {
  OperatorsUnderTest dut;
  std::vector<Tensor> params;
  for (int i = 0; i < 10; ++i) params.push_back(dut.leaf({3, 5}, i, on_pes(kRow)));
  for (const Tensor& parameter : params) (parameter * 1).sum().backward();
  optim::AdamW adam(params);
  const std::size_t before = dut.torch.engine().results().size();
  adam.step();
  CHECK(dut.torch.engine().results().size() == before + 2);  // a kernel on each of two PEs
}

TEST_CASE("the state of an optimizer is memory of the device", "[optim]") {
  OperatorsUnderTest dut;
  const Tensor w = dut.tensor({1024}, Floats(1024, 1), on_pes(kR)).requires_grad_();
  optim::AdamW adam({w}, AdamWOptions().amsgrad(true));
  (w * 2).backward(w.detach());
  dut.torch.ahbm.synchronize();
  const Bytes before = dut.torch.ahbm.memory_allocated();
  adam.step();
  dut.torch.ahbm.synchronize();
  // Two means and a maximum of 4 KiB, on each of two PEs.
  CHECK(dut.torch.ahbm.memory_allocated() == before + 3 * 2 * 4096);
  CHECK(dut.torch.ahbm.memory_summary().find("max_exp_avg_sq'") != std::string::npos);
}

TEST_CASE("parameters are updated on all PEs that have a part of them", "[optim]") {
  OperatorsUnderTest dut;
  // The first has elements on one PE of six, the second on three, the third on all.
  const Tensor a = dut.tensor({1, 1}, {1}, on_all(kRow, kColumn)).requires_grad_();
  const Tensor b = dut.tensor({3, 1}, {1, 2, 3}, on_all(kRow, kColumn)).requires_grad_();
  const Tensor c = dut.tensor({3, 4}, Floats(12, 4), on_all(kRow, kColumn)).requires_grad_();
  for (const Tensor& parameter : {a, b, c}) (parameter * 2).backward(parameter.detach());
  optim::SGD sgd({a, b, c}, 0.25);
  sgd.step();
  CHECK(a.item() == 0.5F);
  CHECK(b.to_vector() == Floats{0.5F, 1, 1.5F});
  CHECK(c.to_vector() == Floats(12, 2));
}

TEST_CASE("parameters keep their types, and what has no gradient stays", "[optim]") {
  OperatorsUnderTest dut;
  const DType dtype = GENERATE(DType::f16, DType::bf16, DType::f32);
  const Tensor used = dut.tensor({3}, {1, 2, 4}, on_pes(kRow), dtype).requires_grad_();
  const Tensor unused = dut.tensor({3}, {1, 2, 4}, on_pes(kRow), dtype).requires_grad_();
  optim::SGD sgd({used, unused}, SGDOptions(0.5).momentum(0.9));
  used.sum().backward();
  sgd.step();
  CHECK(used.to_vector() == Floats{0.5F, 1.5F, 3.5F});
  CHECK(unused.to_vector() == Floats{1, 2, 4});
  CHECK(sgd.state(used).step == 1);
  CHECK(sgd.state(used).first.to_vector() == Floats(3, 1));
  CHECK(sgd.state(used).first.dtype() == dtype);
  CHECK(sgd.state(unused).step == 0);
}

TEST_CASE("groups have options of their own", "[optim]") {
  OperatorsUnderTest dut;
  const Tensor a = dut.tensor({1}, {1}).requires_grad_();
  const Tensor b = dut.tensor({1}, {1}).requires_grad_();
  optim::SGD sgd({{{a}, SGDOptions(0.5)}, {{b}, SGDOptions(0.25)}});
  (a + b).sum().backward();
  sgd.step();
  CHECK(a.item() == 0.5F);
  CHECK(b.item() == 0.75F);
  optim::StepLR schedule(sgd, 2, 0.5);
  CHECK(schedule.get_last_lr() == std::vector{0.5, 0.25});
  schedule.step();
  schedule.step();
  CHECK(schedule.get_last_lr() == std::vector{0.25, 0.125});
  sgd.step();
  CHECK(a.item() == 0.25F);
}

TEST_CASE("schedules are torch's", "[optim]") {
  OperatorsUnderTest dut;
  const Tensor a = dut.tensor({1}, {1}).requires_grad_();
  optim::SGD sgd({a}, 1.0);
  const auto rates = [&](optim::LRScheduler& schedule, int count) {
    std::vector<double> all = schedule.get_last_lr();
    for (int i = 1; i < count; ++i) {
      schedule.step();
      all.push_back(schedule.get_last_lr()[0]);
    }
    sgd.set_lr(0, 1);
    return all;
  };
  optim::LinearLR linear(sgd, 0.5, 1, 2);
  CHECK(rates(linear, 4) == std::vector{0.5, 0.75, 1.0, 1.0});
  optim::LambdaLR lambda(sgd, [](std::int64_t epoch) { return 1.0 / (1 << epoch); });
  CHECK(rates(lambda, 3) == std::vector{1.0, 0.5, 0.25});
  optim::CosineAnnealingLR cosine(sgd, 2, 0.5);
  const std::vector<double> is = rates(cosine, 3);
  CHECK(is[0] == 1);
  CHECK(std::abs(is[1] - 0.75) <= 1e-15);
  CHECK(std::abs(is[2] - 0.5) <= 1e-15);
}

// The figures are those of torch 1.13.1.
TEST_CASE("schedules in a row begin with the rate before any of them, as torch's", "[optim]") {
  OperatorsUnderTest dut;
  const Tensor a = dut.tensor({1}, {1}).requires_grad_();
  const auto check = [](optim::LRScheduler& schedule, const std::vector<double>& wanted) {
    for (const double rate : wanted) {
      CHECK(std::abs(schedule.get_last_lr()[0] - rate) <= 1e-15);
      schedule.step();
    }
  };
  optim::SGD sgd({a}, 0.8);
  optim::LinearLR warm_up(sgd, 0.25, 1, 3);
  optim::CosineAnnealingLR cosine(sgd, 5);
  optim::SequentialLR both(sgd, {&warm_up, &cosine}, {3});
  check(both, {0.2, 0.4, 0.6000000000000001, 0.8, 0.723606797749979, 0.523606797749979,
               0.27639320225002106, 0.07639320225002107});
  optim::MultiStepLR steps(sgd, {2, 5}, 0.5);
  check(steps, {0.8, 0.8, 0.4, 0.4, 0.4, 0.2, 0.2, 0.2});
  optim::ExponentialLR halves(sgd, 0.5);
  check(halves, {0.8, 0.4, 0.2, 0.1, 0.05});
  CHECK_THAT(refusal([&] { optim::SequentialLR(sgd, {&cosine}, {3}); }),
             Says("KB-A012", "one more than the number of milestone points"));
}

TEST_CASE("gradients are clipped as torch does, and only then", "[optim]") {
  OperatorsUnderTest dut;
  const DPPolicy dp = GENERATE(on_pes(kR), on_pes(kRow));
  const Tensor w = dut.tensor({2}, {3, 4}, dp).requires_grad_();
  (w * w).sum().backward();
  CHECK(nn::utils::clip_grad_norm_({w}, 5) == 10);
  const Floats halves = w.grad().to_vector();
  CHECK(std::abs(halves[0] - 3) <= 1e-6F);
  CHECK(std::abs(halves[1] - 4) <= 1e-6F);
  w.grad().mul_(std::numeric_limits<double>::infinity());
  CHECK_THAT(refusal([&] { nn::utils::clip_grad_norm_({w}, 5, {.error_if_nonfinite = true}); }),
             Says("KB-A013", "The total norm of order 2.0 for gradients from `parameters`"));
  Tensor(w).zero_grad();
  (w * w).sum().backward();
  nn::utils::clip_grad_value_({w}, 7);
  CHECK(w.grad().to_vector() == Floats{6, 7});
}

TEST_CASE("what optimizers do not take is refused in torch's words", "[optim]") {
  OperatorsUnderTest dut;
  const Tensor a = dut.tensor({1}, {1}).requires_grad_();
  CHECK_THAT(refusal([&] { optim::SGD({a}, -1.0); }), Says("KB-A012", "Invalid learning rate: -1"));
  CHECK_THAT(refusal([&] { optim::SGD({a}, SGDOptions(1).nesterov(true)); }),
             Says("KB-A012", "Nesterov momentum requires a momentum and zero dampening"));
  CHECK_THAT(refusal([&] {
               optim::Adam({a}, AdamOptions().betas({0.9, 1}));
             }),
             Says("KB-A012", "Invalid beta parameter at index 1: 1"));
  CHECK_THAT(refusal([&] { optim::Adam({a * 2}); }),
             Says("KB-A012", "can't optimize a non-leaf Tensor"));
  CHECK_THAT(refusal([&] {
               optim::Adam({a, a});
             }),
             Says("KB-A012", "some parameters appear in more than one parameter group"));
  CHECK_THAT(refusal([&] { optim::Adam(std::vector<Tensor>()); }),
             Says("KB-A012", "optimizer got an empty parameter list"));
  const Tensor w = dut.tensor({2}, {1, 2}, on_pes(kR)).requires_grad_();
  const Tensor x = dut.tensor({2, 2}, {1, 2, 3, 4}, on_pes(kRow));
  (x * w).sum().backward();  // each PE has a summand of the gradient
  optim::SGD sgd({w}, 0.1);
  CHECK_THAT(error([&] { sgd.step(); }), Says("KB-F003", "SGD.step", "all_reduce it first"));
}

}  // namespace
}  // namespace kernbench::test::optimizer_test
