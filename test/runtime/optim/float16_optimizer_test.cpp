#include "runtime/optim/float16_optimizer.h"

#include <array>
#include <cmath>
#include <limits>

#include "test/runtime/distributed/local_world.h"
#include "test/runtime/functional/operators_under_test.h"

namespace kernbench::test::float16_optimizer_test {
namespace {

using optim::AdamW;
using optim::AdamWOptions;
using optim::DynamicGradScaler;
using optim::DynamicGradScalerOptions;
using optim::Float16OptimizerOptions;
using optim::Float16OptimizerWithFloat16Params;
using optim::GradScaler;
using optim::GradScalerOptions;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Gives a leaf the gradient `factor` times multiples of 1/64.
void give_gradient(OperatorsUnderTest& dut, const Tensor& leaf, int seed, double factor) {
  Floats elements = sixteenths(leaf.numel(), seed);
  for (float& element : elements) element *= static_cast<float>(factor / 4);
  const Tensor weights = dut.tensor(leaf.shape(), elements, leaf.dp(), leaf.dtype());
  (leaf * weights).backward(dut.torch.ones_like(leaf));
}

Tensor f32_leaf(OperatorsUnderTest& dut, const Tensor& like) {
  return dut.tensor(like.shape(), like.to_vector(), like.dp()).requires_grad_();
}

TEST_CASE("masters step in f32, and parameters are their rounded copies", "[optim][mixed]") {
  OperatorsUnderTest dut;
  const DType dtype = GENERATE(DType::f16, DType::bf16);
  const DPPolicy dp = GENERATE(on_pes(kR), on_pes(kRow));
  const Tensor w = dut.tensor({6, 4}, sixteenths(24, 1), dp, dtype).requires_grad_();
  const Tensor b = dut.tensor({5}, sixteenths(5, 2), dp).requires_grad_();  // f32 has no master
  const Tensor w32 = f32_leaf(dut, w);
  const Tensor b32 = f32_leaf(dut, b);
  AdamW plain({w32, b32}, 1e-3);
  Float16OptimizerWithFloat16Params mixed(
      dut.torch, std::make_unique<AdamW>(std::vector{w, b}, 1e-3),
      {.grad_scaler = DynamicGradScalerOptions().initial_scale(1024)});
  CHECK(mixed.main_parameters()[0].dtype() == DType::f32);
  CHECK(mixed.main_parameters()[1].storage() == b.storage());
  for (int step = 0; step < 4; ++step) {
    const double scale = mixed.get_loss_scale();
    give_gradient(dut, w, step, scale);
    give_gradient(dut, b, step + 9, scale);
    give_gradient(dut, w32, step, 1);
    give_gradient(dut, b32, step + 9, 1);
    plain.step();
    mixed.step();
    CHECK(mixed.last_step().success);
    mixed.zero_grad();
    plain.zero_grad();
    CHECK(mixed.main_parameters()[0].to_vector() == w32.to_vector());
    CHECK(w.to_vector() == w32.to(dtype).to_vector());
    CHECK(b.to_vector() == b32.to_vector());
  }
  CHECK(w.to_vector() != w32.to_vector());
}

TEST_CASE("a step with an infinite gradient is skipped, and the scale falls", "[optim][mixed]") {
  OperatorsUnderTest dut;
  const Tensor w = dut.tensor({3}, {1, 2, 4}, on_pes(kR), DType::f16).requires_grad_();
  Float16OptimizerWithFloat16Params mixed(
      dut.torch, std::make_unique<optim::SGD>(std::vector{w}, 0.5),
      {.grad_scaler = DynamicGradScalerOptions().initial_scale(65536).hysteresis(1)});
  // The scaled gradients are 65536, infinite in f16, and 32768.
  for (const bool succeeds : {false, true}) {
    mixed.scale_loss(w.to(DType::f32).sum()).backward();
    mixed.step();
    CHECK(mixed.last_step().success == succeeds);
    CHECK(mixed.get_loss_scale() == 32768);
    CHECK(w.to_vector() == (succeeds ? Floats{0.5F, 1.5F, 3.5F} : Floats{1, 2, 4}));
  }
}

TEST_CASE("masters are clipped by the norm of unscaled gradients", "[optim][mixed]") {
  OperatorsUnderTest dut;
  const Tensor w = dut.tensor({2}, {3, 4}, on_pes(kRow), DType::bf16).requires_grad_();
  Float16OptimizerWithFloat16Params mixed(
      dut.torch, std::make_unique<optim::SGD>(std::vector{w}, 1.0),
      {.clip_grad = 5, .grad_scaler = DynamicGradScalerOptions().initial_scale(64)});
  mixed.scale_loss((w * w).sum()).backward();
  mixed.step();
  CHECK(mixed.last_step().grad_norm == 10);
  for (const float element : mixed.main_parameters()[0].to_vector()) {
    CHECK(std::abs(element) <= 1e-6F);
  }
}

TEST_CASE("infinities and norms are those of all ranks that share a model", "[optim][mixed]") {
  LocalWorld world(2);
  world.spawn([&](int rank) {
    const Tensor w = world.tensor({4}, DType::f16).requires_grad_();
    Float16OptimizerWithFloat16Params mixed(
        world.torch, std::make_unique<optim::SGD>(std::vector{w}, 1.0),
        {.clip_grad = 2.5,
         .grad_scaler = DynamicGradScalerOptions().initial_scale(2).hysteresis(1),
         .grad_stats_parallel_group = distributed::ProcessGroup()});
    mixed.scale_loss(w * (rank == 0 ? kInfinity : 1)).backward();
    mixed.step();
    CHECK(!mixed.last_step().success);
    CHECK(mixed.get_loss_scale() == 1);
    mixed.scale_loss(w * (rank == 0 ? 3 : 4)).backward();
    mixed.step();
    CHECK(mixed.last_step().grad_norm == 5);
    CHECK(std::abs(w.item() - (rank == 0 ? 2.5F : 2)) <= 0x1p-9F);  // gradients are halved
  });
}

TEST_CASE("the state of masters continues a training bit for bit", "[optim][mixed]") {
  OperatorsUnderTest dut;
  const auto train = [&](Float16OptimizerWithFloat16Params& mixed, const Tensor& w, int from) {
    for (int step = from; step < from + 2; ++step) {
      give_gradient(dut, w, step, mixed.get_loss_scale());
      mixed.step();
    }
    return mixed.main_parameters()[0].to_vector();
  };
  const auto made = [&](const Tensor& w, double lr) {
    return std::make_unique<Float16OptimizerWithFloat16Params>(
        dut.torch, std::make_unique<AdamW>(std::vector{w}, lr),
        Float16OptimizerOptions{
            .grad_scaler = DynamicGradScalerOptions().initial_scale(8).growth_interval(2)});
  };
  const Tensor a = dut.tensor({4}, sixteenths(4, 1), on_pes(kR), DType::bf16).requires_grad_();
  const Tensor b = dut.tensor({4}, Floats(4, 0), on_pes(kRow), DType::bf16).requires_grad_();
  const auto first = made(a, 1e-3);
  const auto second = made(b, 0.5);
  train(*first, a, 0);
  const nn::State state = first->state_dict();
  CHECK(state.tensors.contains("fp32_from_fp16_params.0"));
  CHECK(state.tensors.contains("state.0.exp_avg_sq"));
  CHECK(state.numbers["grad_scaler.scale"] == 16);
  CHECK(state.numbers["state.0.step"] == 2);
  CHECK(state.numbers["param_groups.0.lr"] == 1e-3);
  second->load_state_dict(state);
  CHECK(b.to_vector() == a.to_vector());
  CHECK(train(*first, a, 2) == train(*second, b, 2));
}

TEST_CASE("a state of other groups is refused in torch's words", "[optim]") {
  OperatorsUnderTest dut;
  const Tensor a = dut.leaf({2}, 1);
  const Tensor b = dut.leaf({2}, 2);
  AdamW one({a, b}, 1e-3);
  AdamW smaller({a}, 1e-3);
  AdamW two({{{a}, AdamWOptions()}, {{b}, AdamWOptions()}});
  CHECK_THAT(refusal([&] { one.load_state_dict(two.state_dict()); }),
             Says("KB-A012", "loaded state dict has a different number of parameter groups"));
  CHECK_THAT(refusal([&] { one.load_state_dict(smaller.state_dict()); }),
             Says("KB-A012", "a parameter group that doesn't match the size of optimizer's group"));
}

TEST_CASE("the scale grows after good steps and falls after bad ones, as torch's", "[optim]") {
  OperatorsUnderTest dut;
  const Tensor w = dut.tensor({2}, {1, 2}, on_pes(kR)).requires_grad_();
  optim::SGD sgd({w}, 0.25);
  GradScaler scaler(GradScalerOptions().init_scale(4).growth_interval(2));
  struct Step {
    double factor;
    double scale;  // after it
  };
  for (const Step& step : {Step{1, 4}, Step{1, 8}, Step{kInfinity, 4}, Step{1, 4}, Step{1, 8}}) {
    const Floats before = w.to_vector();
    sgd.zero_grad();
    scaler.scale((w * step.factor).sum()).backward();
    const bool is_finite = std::isfinite(step.factor);
    CHECK(scaler.step(sgd) == is_finite);
    CHECK(w.to_vector()[0] == before[0] - (is_finite ? 0.25F : 0));
    scaler.update();
    CHECK(scaler.get_scale() == step.scale);
  }
  GradScaler other;
  other.load_state_dict(scaler.state_dict());
  CHECK(other.get_scale() == 8);
  const GradScaler none(GradScalerOptions().enabled(false));
  CHECK(none.scale(w).storage() == w.storage());
  CHECK(none.get_scale() == 1);
}

TEST_CASE("a scaler that is used in the wrong order says so in torch's words", "[optim]") {
  OperatorsUnderTest dut;
  const Tensor w = dut.tensor({2}, {1, 2}, on_pes(kR)).requires_grad_();
  optim::SGD sgd({w}, 0.25);
  GradScaler scaler;
  CHECK_THAT(refusal([&] { scaler.update(); }),
             Says("KB-A018", "No inf checks were recorded prior to update."));
  CHECK_THAT(refusal([&] { scaler.step(sgd); }),
             Says("KB-A018", "No inf checks were recorded for this optimizer."));
  w.sum().backward();
  scaler.unscale_(sgd);
  CHECK_THAT(refusal([&] { scaler.unscale_(sgd); }),
             Says("KB-A018", "unscale_() has already been called on this optimizer"));
  scaler.step(sgd);
  CHECK_THAT(refusal([&] { scaler.unscale_(sgd); }),
             Says("KB-A018", "unscale_() is being called after step()."));
  CHECK_THAT(refusal([&] { scaler.step(sgd); }),
             Says("KB-A018", "step() has already been called since the last update()."));
  const Tensor half = dut.tensor({2}, {1, 2}, on_pes(kR), DType::f16).requires_grad_();
  half.sum().backward();
  optim::SGD of_half({half}, 0.25);
  CHECK_THAT(refusal([&] { scaler.unscale_(of_half); }),
             Says("KB-A018", "Attempting to unscale FP16 gradients."));
}

TEST_CASE("Megatron's scale falls after several bad steps alone", "[optim][mixed]") {
  DynamicGradScaler scaler(
      DynamicGradScalerOptions().initial_scale(8).min_scale(4).growth_interval(2).hysteresis(2));
  struct Step {
    bool found_inf;
    double scale;  // after it
  };
  constexpr std::array<Step, 7> kSteps{
      {{true, 8}, {true, 4}, {true, 4}, {false, 4}, {false, 8}, {true, 8}, {true, 4}}};
  for (const auto& [found_inf, scale] : kSteps) {
    scaler.update(found_inf);
    CHECK(scaler.scale() == scale);
  }
}

TEST_CASE("a step with masters is few kernels, however many parameters there are",
          "[optim][mixed]") {
  OperatorsUnderTest dut;
  std::vector<Tensor> params;
  for (int i = 0; i < 20; ++i) params.push_back(dut.leaf({3, 5}, i, on_pes(kR), DType::f16));
  for (const Tensor& parameter : params) parameter.sum().backward();
  Float16OptimizerWithFloat16Params mixed(
      dut.torch, std::make_unique<AdamW>(params, 1e-3),
      {.clip_grad = 1e-3, .grad_scaler = DynamicGradScalerOptions().initial_scale(1)});
  const std::size_t before = dut.torch.engine().results().size();
  mixed.step();
  // To f32; infinities; norm; clip; step; to f16: each on two PEs.
  CHECK(dut.torch.engine().results().size() == before + 2 * 6);
}

}  // namespace
}  // namespace kernbench::test::float16_optimizer_test
