// A GPT of 12 layers that 8 ranks train, beside the same by the real torch
// (test/golden/torch_gpt.txt).
//
// All 100 losses take minutes: `benches_test "[gpt_of_12_layers]"` compares them.

#include <cmath>
#include <memory>
#include <vector>

#include "benches/train/language_model.h"
#include "benches/train/text.h"
#include "runtime/functional/functional.h"
#include "runtime/optim/optimizer.h"
#include "runtime/parallel/distributed_data_parallel.h"
#include "runtime/torch/run_ranks.h"
#include "runtime/torch/runtime_context.h"
#include "test/support/small_topology.h"
#include "test/support/torch_training.h"

namespace kernbench::benches {
namespace {

constexpr int kRanks = 8;
constexpr std::int64_t kStride = 97;  // bytes between the beginnings of samples
constexpr train::LanguageModelSize kSize{
    .layers = 12, .hidden = 64, .heads = 4, .vocab = 128, .seq = 64, .batch = 1};
constexpr TensorOptions kOnOnePe{.dp = DPPolicy::on_one_pe()};

struct Gpt : nn::HolderBase {
  explicit Gpt(const RuntimeContext& torch) : model(make_gpt(torch, kSize, kOnOnePe)) {
    fill_weights(model);
  }
  const std::shared_ptr<nn::Module>& ptr() const { return model.module; }
  Tensor operator()(const Tensor& tokens) const { return model.forward(tokens); }

  train::LanguageModel model;
};

// The tokens of a sample, which begin `ahead` bytes late.
Tensor sample(const RuntimeContext& torch, int number, int ahead) {
  const std::string_view text = train::training_texts().front().text;
  const auto most = static_cast<std::int64_t>(text.size()) - kSize.seq - 1;
  const std::int64_t start = number * kStride % most + ahead;
  std::vector<float> tokens;
  for (std::int64_t i = start; i < start + kSize.seq; ++i) {
    tokens.push_back(static_cast<float>(text[static_cast<std::size_t>(i)]));
  }
  return torch.tensor(tokens, {kSize.seq}, kOnOnePe);
}

// The mean of all ranks' losses, step by step.
std::vector<double> losses_of(int steps) {
  std::vector<double> losses(static_cast<std::size_t>(steps));
  RuntimeContext torch(test::round_topology(SipTopology::ring_1d, kRanks, 1, 1));
  torch.distributed.init_process_group("ahbm");
  run_on_devices(torch, kRanks, [&](int rank) {
    nn::parallel::DistributedDataParallel ddp(Gpt{torch});
    optim::AdamW optimizer(ddp->parameters(), 1e-3);
    for (int step = 0; step < steps; ++step) {
      const int number = step * kRanks + rank;
      optimizer.zero_grad();
      const Tensor loss =
          nn::functional::cross_entropy(ddp(sample(torch, number, 0)), sample(torch, number, 1));
      loss.backward();
      nn::utils::clip_grad_norm_(ddp->parameters(), 1);
      optimizer.step();
      losses[static_cast<std::size_t>(step)] += loss.item<double>() / kRanks;
    }
  });
  return losses;
}

void check_losses(int steps) {
  const auto f32 = test::torch_steps("gpt", "torch_gpt.txt");
  const auto f64 = test::torch_steps("gpt-f64", "torch_gpt.txt");
  REQUIRE(f64.size() == 100);
  const double spread = test::compute_spread(f32, f64);
  const std::vector<double> losses = losses_of(steps);
  for (std::size_t i = 0; i < losses.size(); ++i) {
    CAPTURE(i, spread);
    CHECK(std::abs(losses[i] - f64[i].loss) <= 3 * spread);
    if (i < 3) CHECK(losses[i] == Approx(f64[i].loss).epsilon(2e-6));
  }
}

TEST_CASE("8 ranks train a GPT of 12 layers as torch does", "[ddp][exhaustive]") {
  check_losses(3);
}

TEST_CASE("8 ranks train a GPT of 12 layers as torch does, over 100 steps",
          "[.][gpt_of_12_layers]") {
  check_losses(100);
}

}  // namespace
}  // namespace kernbench::benches
