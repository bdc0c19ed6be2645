// Two layers that ranks shard and train, each rank on one PE or several.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/optim/optimizer.h"
#include "test/parallel/fsdp_world.h"

namespace kernbench::test {

inline Floats whole_parameters(const nn::Module& model) {
  Floats all;
  const nn::StateDict whole =
      distributed::checkpoint::get_model_state_dict(model, {.full_state_dict = true});
  for (const Tensor& parameter : whole.values()) {
    const Floats own = parameter.to_vector();
    all.insert(all.end(), own.begin(), own.end());
  }
  return all;
}

struct FsdpSetting {
  int ranks = 1;
  std::int64_t width = 8;
  const char* backend = "ahbm";
  bool blocks = false;
  int replicas = 1;
  FullyShardOptions options = {};
  int microbatches = 1;
  UsedPes on = {};  // of each rank
  int steps = 2;
};

// Losses, summed over ranks, the gradients' norms, and the weights after two steps: a third one's
// need more than 24 bits.
struct FsdpLearned {
  std::vector<double> losses;
  std::vector<double> norms;
  Floats weights;
};

// A step over this rank's rows, in several passes of which the last one sends gradients.
inline double accumulate(DataParallelWorld& world, const FsdpSetting& setting,
                         const nn::Sequential& model, const FSDPModule& fsdp, int rank) {
  const std::int64_t count = kBatchRows / setting.ranks / setting.microbatches;
  double loss = 0;
  for (int i = 0; i < setting.microbatches; ++i) {
    const std::int64_t first = (rank * setting.microbatches + i) * count;
    const Tensor x =
        world.tensor(batch_rows(first, count, 1), {count, kBatchColumns}, setting.on.rows());
    const Tensor t =
        world.tensor(batch_rows(first, count, 2), {count, kBatchColumns}, setting.on.rows());
    fsdp.set_requires_gradient_sync(i + 1 == setting.microbatches);
    const Tensor mean = (model(x) * t).sum() / static_cast<double>(count * setting.microbatches);
    mean.backward();
    loss += mean.item<double>() / setting.ranks;
  }
  return loss;
}

inline FsdpLearned learn(const FsdpSetting& setting) {
  DataParallelWorld world(setting.ranks, setting.backend, {.launch_blocking = setting.blocks},
                          setting.on.cubes);
  FsdpLearned learned{std::vector<double>(static_cast<std::size_t>(setting.steps)),
                      std::vector<double>(static_cast<std::size_t>(setting.steps)),
                      {}};
  world.spawn([&](int rank) {
    FullyShardOptions options = setting.options;
    if (setting.replicas > 1) {
      options.mesh = world.torch.distributed.init_device_mesh(
          "ahbm", {setting.replicas, setting.ranks / setting.replicas}, {"replicate", "shard"});
    }
    const nn::Sequential model = two_layers(world.torch, setting.width, setting.on.weights());
    const FSDPModule fsdp = shard_layers(model, options, options);
    optim::SGD optimizer(model->parameters(), 0.25);
    for (std::size_t step = 0; step < learned.losses.size(); ++step) {
      learned.losses[step] += accumulate(world, setting, model, fsdp, rank);
      learned.norms[step] = nn::utils::clip_grad_norm_(model->parameters(), 1e30);
      optimizer.step();
      optimizer.zero_grad();
    }
    const Floats weights = whole_parameters(*model);
    if (rank == 0) learned.weights = weights;
  });
  return learned;
}

}  // namespace kernbench::test
