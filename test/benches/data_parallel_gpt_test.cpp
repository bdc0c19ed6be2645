// A GPT of 12 layers that 8 ranks train, beside the same by the real torch
// (test/golden/torch_gpt.txt).
//
// All 100 losses take minutes: `benches_test "[gpt_of_12_layers]"` compares them.

#include <cmath>
#include <memory>
#include <vector>

#include "benches/train/language_model.h"
#include "benches/train/text.h"
#include "benches/train/used_pes.h"
#include "runtime/functional/functional.h"
#include "runtime/optim/optimizer.h"
#include "runtime/parallel/distributed_data_parallel.h"
#include "runtime/parallel/fully_shard.h"
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
constexpr train::UsedPes kOnePe{1, 1};
constexpr train::UsedPes kAllPes{2, 2};  // of the test's topology

struct Gpt : nn::HolderBase {
  Gpt(const RuntimeContext& torch, const train::UsedPes& on)
      : model(make_gpt(torch, kSize, {.dp = on.weights()})) {
    fill_weights(model);
  }
  const std::shared_ptr<nn::Module>& ptr() const { return model.module; }
  Tensor operator()(const Tensor& tokens) const { return model.forward(tokens); }

  train::LanguageModel model;
};

// The tokens of a sample, which begin `ahead` bytes late.
Tensor sample(const RuntimeContext& torch, const train::UsedPes& on, int number, int ahead) {
  const std::string_view text = train::training_texts().front().text;
  const auto most = static_cast<std::int64_t>(text.size()) - kSize.seq - 1;
  const std::int64_t start = number * kStride % most + ahead;
  std::vector<float> tokens;
  for (std::int64_t i = start; i < start + kSize.seq; ++i) {
    tokens.push_back(static_cast<float>(text[static_cast<std::size_t>(i)]));
  }
  return torch.tensor(tokens, {kSize.seq}, {.dp = on.tokens()});
}

// Trains the module of one rank; adds the loss of each step to the mean of all ranks'.
template <class Model>
void train(const RuntimeContext& torch, int rank, const train::UsedPes& on, const Model& model,
           const std::vector<Tensor>& parameters, std::vector<double>& losses) {
  optim::AdamW optimizer(parameters, 1e-3);
  for (std::size_t step = 0; step < losses.size(); ++step) {
    const int number = static_cast<int>(step) * kRanks + rank;
    optimizer.zero_grad();
    const Tensor loss = nn::functional::cross_entropy(model(sample(torch, on, number, 0)),
                                                      sample(torch, on, number, 1));
    loss.backward();
    nn::utils::clip_grad_norm_(parameters, 1);
    optimizer.step();
    losses[step] += loss.item<double>() / kRanks;
  }
}

enum class Scheme { ddp, fully_shard };

std::vector<double> losses_of(Scheme scheme, const train::UsedPes& on, int steps) {
  std::vector<double> losses(static_cast<std::size_t>(steps));
  RuntimeContext torch(test::round_topology(SipTopology::ring_1d, kRanks, 1, on.cubes));
  torch.distributed.init_process_group("ahbm");
  run_on_devices(torch, kRanks, [&](int rank) {
    const Gpt gpt(torch, on);
    if (scheme == Scheme::ddp) {
      const nn::parallel::DistributedDataParallel ddp(gpt);
      train(torch, rank, on, ddp, ddp->parameters(), losses);
      return;
    }
    nn::Module& module = *gpt.ptr();
    for (const auto& block : module.named_children()["blocks"]->children()) {
      distributed::fsdp::fully_shard(*block);
    }
    distributed::fsdp::fully_shard(module);
    train(torch, rank, on, gpt, module.parameters(), losses);
  });
  return losses;
}

void check_losses(Scheme scheme, const train::UsedPes& on, int steps) {
  const auto f32 = test::torch_steps("gpt", "torch_gpt.txt");
  const auto f64 = test::torch_steps("gpt-f64", "torch_gpt.txt");
  REQUIRE(f64.size() == 100);
  const double spread = test::compute_spread(f32, f64);
  const std::vector<double> losses = losses_of(scheme, on, steps);
  for (std::size_t i = 0; i < losses.size(); ++i) {
    CAPTURE(i, spread);
    CHECK(std::abs(losses[i] - f64[i].loss) <= 3 * spread);
    if (i < 3) CHECK(losses[i] == Approx(f64[i].loss).epsilon(2e-6));
  }
}

TEST_CASE("8 ranks train a GPT of 12 layers as torch does", "[ddp][exhaustive]") {
  check_losses(Scheme::ddp, kOnePe, 3);
}

TEST_CASE("8 ranks of 4 PEs that shard a GPT of 12 layers train it as torch does",
          "[fsdp][exhaustive]") {
  check_losses(Scheme::fully_shard, kAllPes, 3);
}

TEST_CASE("8 ranks train a GPT of 12 layers as torch does, over 100 steps",
          "[.][gpt_of_12_layers]") {
  check_losses(Scheme::ddp, kOnePe, 100);
}

}  // namespace
}  // namespace kernbench::benches
