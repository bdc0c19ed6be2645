// Where sums are exact, W ranks learn as one rank over the whole batch does, bit for bit.

#include "runtime/optim/optimizer.h"
#include "runtime/simulation/simulation.h"
#include "runtime/torch/internals.h"
#include "sim_engine/components/hbm_allocator.h"
#include "test/parallel/data_parallel_world.h"
#include "tp/distributed_data_parallel.h"
#include "tp/parallel_state.h"

namespace kernbench::test::exact_losses_test {
namespace {

// Losses, summed over ranks (each is the mean of y t over its rows), and the weights after two
// steps: a third one's need more than 24 bits.
struct Learned {
  std::vector<double> losses = std::vector<double>(2);
  Floats weights = {};
  std::vector<double> norms = {};  // of gradients, of rank 0 with Megatron's optimizer
  friend bool operator==(const Learned&, const Learned&) = default;
};

template <class Model, class Step>
void learn(DataParallelWorld& world, int rank, const UsedPes& on, Model& model, Learned& learned,
           const Step& step) {
  const std::int64_t count = kBatchRows / world.size;
  const auto batch = [&](int seed) {
    return world.tensor(batch_rows(rank * count, count, seed), {count, kBatchColumns}, on.rows());
  };
  const Tensor x = batch(1);
  const Tensor t = batch(2);
  for (double& loss : learned.losses) {
    const Tensor mean = (model(x) * t).sum() / static_cast<double>(count);
    mean.backward();
    loss += mean.item<double>() / world.size;
    step();
  }
  if constexpr (requires { model->finish_param_sync(); }) model->finish_param_sync();
  if (rank != 0) return;
  for (const Tensor& parameter : model->parameters()) {
    const Floats own = parameter.to_vector();
    learned.weights.insert(learned.weights.end(), own.begin(), own.end());
  }
}

Learned learn_with_ddp(int ranks, bool static_graph, const UsedPes& on = {}) {
  DataParallelWorld world(ranks, "ahbm", {}, on.cubes);
  Learned learned;
  world.spawn([&](int rank) {
    nn::parallel::DistributedDataParallel ddp(two_layers(world.torch, 8, on.weights()),
                                              {.bucket_cap_mb = 0, .static_graph = static_graph});
    optim::SGD optimizer(ddp->parameters(), 0.25);
    learn(world, rank, on, ddp, learned, [&] {
      optimizer.step();
      optimizer.zero_grad();
    });
  });
  return learned;
}

Learned learn_with_megatron(int ranks, const tp::DistributedDataParallelConfig& config,
                            const UsedPes& on = {}) {
  DataParallelWorld world(ranks, "ahbm", {}, on.cubes);
  Learned learned;
  world.spawn([&](int rank) {
    tp::initialize_model_parallel(world.torch, {});
    tp::DistributedDataParallel model(world.torch, config,
                                      two_layers(world.torch, 8, on.weights()));
    tp::MegatronOptimizer optimizer(world.torch, model->buckets(), [](std::vector<Tensor> shards) {
      return std::make_unique<optim::SGD>(std::move(shards), 0.25);
    });
    learn(world, rank, on, model, learned, [&] {
      tp::finalize_model_grads(model);
      optimizer.step();
      model->zero_grad_buffer();
    });
  });
  return learned;
}

TEST_CASE("every scheme gives the losses of one rank over the whole batch, bit for bit", "[ddp]") {
  const int ranks = GENERATE(1, 2, 4, 8);
  CAPTURE(ranks);
  const Learned alone = learn_with_ddp(1, false);
  CHECK(alone.losses[0] != alone.losses[1]);
  CHECK(learn_with_ddp(ranks, false) == alone);
  CHECK(learn_with_ddp(ranks, true) == alone);
  for (const bool overlaps : {false, true}) {
    for (const bool shares : {false, true}) {
      CAPTURE(overlaps, shares);
      CHECK(learn_with_megatron(ranks, {.overlap_grad_reduce = overlaps,
                                        .use_distributed_optimizer = shares,
                                        .bucket_size = 20}) == alone);
    }
  }
  CHECK(learn_with_megatron(ranks, {.overlap_grad_reduce = true,
                                    .use_distributed_optimizer = true,
                                    .overlap_param_gather = true,
                                    .bucket_size = 20}) == alone);
}

// With norms, and a step without gradients behind each step.
Learned learn_with_norms(int ranks, const UsedPes& on) {
  DataParallelWorld world(ranks, "ahbm", {}, on.cubes);
  Learned learned;
  world.spawn([&](int rank) {
    tp::initialize_model_parallel(world.torch, {});
    tp::DistributedDataParallel model(world.torch,
                                      {.use_distributed_optimizer = true, .bucket_size = 20},
                                      two_layers(world.torch, 8, on.weights()));
    tp::MegatronOptimizer optimizer(world.torch, model->buckets(),
                                    [](std::vector<Tensor> shards) {
                                      return std::make_unique<optim::SGD>(std::move(shards), 0.25);
                                    },
                                    {.clip_grad = 1024});
    // A step without gradients changes nothing.
    const auto skip_step = [&] {
      model->zero_grad_buffer();
      tp::finalize_model_grads(model);
      CHECK(optimizer.step().grad_norm == 0);
      model->zero_grad_buffer();
    };
    learn(world, rank, on, model, learned, [&] {
      tp::finalize_model_grads(model);
      const double norm = optimizer.step().grad_norm;
      if (rank == 0) learned.norms.push_back(norm);
      skip_step();
    });
  });
  return learned;
}

TEST_CASE("PEs that share weights have the norms of one, and steps without gradients are none",
          "[ddp]") {
  const int ranks = GENERATE(1, 2, 4);
  const UsedPes on{GENERATE(1, 2), 2};
  CAPTURE(ranks, on.cubes);
  const Learned alone = learn_with_norms(1, {});
  CHECK(alone.norms.size() == 2);
  CHECK(alone.norms[0] > 1);
  const Learned shared = learn_with_norms(ranks, on);
  CHECK(shared.losses == alone.losses);
  CHECK(shared.weights == alone.weights);
  REQUIRE(shared.norms.size() == 2);
  for (std::size_t i = 0; i < 2; ++i) {
    CHECK(shared.norms[i] == Approx(alone.norms[i]).epsilon(1e-6));  // summed in another order
  }
}

TEST_CASE("PEs of a rank that share rows and weights learn as one does", "[ddp]") {
  const int ranks = GENERATE(1, 2, 4);
  const UsedPes on{GENERATE(1, 2), 2};
  CAPTURE(ranks, on.cubes);
  const Learned alone = learn_with_ddp(1, false);
  CHECK(learn_with_ddp(ranks, false, on) == alone);
  for (const bool overlaps : {false, true}) {
    for (const bool gathers_later : {false, true}) {
      if (gathers_later && !overlaps) continue;
      CAPTURE(overlaps, gathers_later);
      CHECK(learn_with_megatron(ranks,
                                {.overlap_grad_reduce = overlaps,
                                 .use_distributed_optimizer = true,
                                 .overlap_param_gather = gathers_later,
                                 .bucket_size = 20},
                                on) == alone);
    }
  }
}

// Adam's state and the masters are f32: 2 + 4 bytes for a parameter and its gradient, and 12 / dp.
TEST_CASE("ZeRO-1 takes 6 + 12 / dp bytes of HBM for each bf16 parameter", "[ddp][memory]") {
  const int ranks = GENERATE(1, 2, 4);
  DataParallelWorld world(ranks, "ahbm", {.data = false});
  world.spawn([&](int rank) {
    tp::initialize_model_parallel(world.torch, {});
    const auto held = [&] {
      world.torch.ahbm.synchronize();
      return simulation_of(world.torch).allocator(rank).allocated();
    };
    const Bytes before = held();
    constexpr std::int64_t kSide = 1024;
    const TensorOptions options{.dtype = DType::bf16, .dp = DPPolicy::on_one_pe()};
    const nn::Linear linear(world.torch, nn::LinearOptions(kSide, kSide).bias(false), options);
    tp::DistributedDataParallel model(
        world.torch, {.grad_reduce_in_fp32 = true, .use_distributed_optimizer = true}, linear);
    tp::MegatronOptimizer optimizer(world.torch, model->buckets(), [](std::vector<Tensor> shards) {
      return std::make_unique<optim::AdamW>(std::move(shards));
    });
    {
      const Tensor x = world.torch.zeros({1, kSide}, options);
      model(x).sum().backward();
    }
    tp::finalize_model_grads(model);
    optimizer.step();
    CHECK(held() - before == (6 + 12 / ranks) * kSide * kSide);
  });
}

}  // namespace
}  // namespace kernbench::test::exact_losses_test
