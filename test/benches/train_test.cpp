// The training of the bench `train` beside the same by the real torch (test/golden).

#include <algorithm>
#include <cmath>

#include "benches/train/training.h"
#include "runtime/torch/runtime_context.h"
#include "test/support/small_topology.h"
#include "test/support/torch_training.h"

namespace kernbench::benches {
namespace {

using test::torch_steps;
using test::TorchStep;

// The largest distance of torch's f32 losses from its f64 ones.
double spread_of(const std::vector<TorchStep>& f32, const std::vector<TorchStep>& f64) {
  double most = 0;
  for (std::size_t i = 0; i < f32.size(); ++i) {
    most = std::max(most, std::abs(f32[i].loss - f64[i].loss));
  }
  return most;
}

TEST_CASE("language models learn as with torch, loss by loss", "[train]") {
  const train::ModelKind kind = GENERATE(train::ModelKind::gpt, train::ModelKind::llama);
  const std::string name(name_of(kind));
  const auto f32 = torch_steps(name);
  const auto f64 = torch_steps(name + "-f64");
  RuntimeContext torch(test::round_topology(SipTopology::ring_1d, 1, 1, 1, 1));
  train::Training training(torch, {.model = kind});
  const double spread = spread_of(f32, f64);
  for (std::size_t i = 0; i < f32.size(); ++i) {
    const train::TrainingStep step = training.step();
    INFO(name << " step " << i);
    if (i < 10) CHECK(std::abs(step.loss - f64[i].loss) <= 2e-6 * f64[i].loss);
    CHECK(std::abs(step.loss - f64[i].loss) <= 3 * spread);
    CHECK(step.time > Time{0});
  }
}

// Adam's squares of gradients vanish in f16, as they do in torch.
TEST_CASE("language models learn in f16 by SGD, and in bf16 by AdamW", "[train]") {
  const bool is_f16 = GENERATE(true, false);
  const train::ModelKind kind = GENERATE(train::ModelKind::gpt, train::ModelKind::llama);
  RuntimeContext torch(test::round_topology(SipTopology::ring_1d, 1, 1, 1, 1));
  train::Training training(
      torch, {.model = kind,
              .optimizer = is_f16 ? train::OptimizerKind::sgd : train::OptimizerKind::adamw,
              .lr = is_f16 ? 0.3 : 0.01,
              .dtype = is_f16 ? DType::f16 : DType::bf16});
  const double first = training.step().loss;
  double last = 0;
  for (int i = 0; i < 19; ++i) last = training.step().loss;
  CHECK(last < first - 0.5);
}

}  // namespace
}  // namespace kernbench::benches
