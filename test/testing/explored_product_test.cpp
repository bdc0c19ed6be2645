// What is ours computes the same bits in every schedule: collectives, DistributedDataParallel,
// ZeRO-1 and FSDP2.

#include <catch2/catch.hpp>
// Catch2 comes first.
#include <kernbench/testing.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "test/support/sanitized.h"

namespace kernbench::test::explored_product_test {
namespace {

using testing::explore;
using testing::World;

// Values that no order of summation leaves as they are.
Tensor values(World& world, int rank, std::int64_t count) {
  std::vector<float> elements;
  for (std::int64_t i = 0; i < count; ++i) {
    elements.push_back(1.0F / static_cast<float>(3 + rank * 7 + i));
  }
  return world.torch.tensor(elements, {count}, {});
}

int runs_of(const std::string& backend, int on_devices) {
  const int runs = backend == "local" ? 10 * on_devices : on_devices;
  return kIsSanitized ? runs / 10 : runs;
}

TEST_CASE("every collective gives the same bits in every schedule") {
  const std::string backend = GENERATE("local", "ahbm");
  CAPTURE(backend);
  const auto report =
      explore({.backend = backend, .runs = runs_of(backend, 200)}, [](World& world) {
        world.run([&](int rank) {
          distributed::DistributedContext& dist = world.torch.distributed;
          const Tensor x = values(world, rank, 64);
          const Tensor all = world.torch.zeros({256});
          const Tensor part = world.torch.zeros({16});
          const auto work = dist.all_reduce(x, {.async_op = true});
          const Tensor other = values(world, rank, 64);
          dist.all_gather_into_tensor(all, other);
          work.wait();
          dist.reduce_scatter_tensor(part, other);
          dist.broadcast(other, 2);
          dist.reduce(x, 1);
          const Tensor swapped = world.torch.zeros({64});
          dist.all_to_all_single(swapped, x);
          dist.barrier();
          for (const Tensor& result : {x, all, part, other, swapped})
            world.observe("result", result);
        });
      });
  CHECK(report.runs == runs_of(backend, 200));
}

// Two layers, with weights that do not depend on the rank.
nn::Sequential two_layers(World& world) {
  world.torch.manual_seed(3);
  return nn::Sequential(nn::Linear(world.torch, 8, 8), nn::Linear(world.torch, 8, 4));
}

Tensor rows(World& world, int rank) {
  return values(world, rank, 32).view({4, 8});
}

void show_parameters(const World& world, const std::vector<Tensor>& parameters) {
  for (const Tensor& parameter : parameters) world.observe("parameter", parameter);
}

void train_ddp(World& world, int rank) {
  nn::parallel::DistributedDataParallel model(two_layers(world), {.bucket_cap_mb = 1e-4});
  optim::SGD optimizer(model->parameters(), 0.25);
  for (int step = 0; step < 2; ++step) {
    optimizer.zero_grad();
    model(rows(world, rank)).sum().backward();
    optimizer.step();
  }
  show_parameters(world, model->parameters());
}

void train_zero(World& world, int rank) {
  tp::initialize_model_parallel(world.torch);
  tp::DistributedDataParallel model(
      world.torch,
      {.overlap_grad_reduce = true, .use_distributed_optimizer = true, .bucket_size = 40},
      two_layers(world));
  tp::MegatronOptimizer optimizer(world.torch, model->buckets(), [](std::vector<Tensor> shards) {
    return std::make_unique<optim::AdamW>(std::move(shards), 1e-2);
  });
  for (int step = 0; step < 2; ++step) {
    model->zero_grad_buffer();
    model(rows(world, rank)).sum().backward();
    tp::finalize_model_grads(model);
    optimizer.step();
  }
  show_parameters(world, model->parameters());
}

void train_fsdp(World& world, int rank) {
  const nn::Sequential model = two_layers(world);
  for (const auto& layer : model->children()) distributed::fsdp::fully_shard(*layer);
  distributed::fsdp::fully_shard(model);
  optim::SGD optimizer(model->parameters(), 0.25);
  for (int step = 0; step < 2; ++step) {
    optimizer.zero_grad();
    model(rows(world, rank)).sum().backward();
    optimizer.step();
  }
  show_parameters(world, model->parameters());
}

TEST_CASE("training on several ranks gives the same bits in every schedule") {
  using Train = void (*)(World&, int);
  const Train train = GENERATE(as<Train>(), train_ddp, train_zero, train_fsdp);
  const std::string backend = GENERATE("local", "ahbm");
  const int runs = runs_of(backend, 20);
  CAPTURE(backend);
  const auto report = explore({.ranks = 2, .backend = backend, .runs = runs}, [&](World& world) {
    world.run([&](int rank) { train(world, rank); });
  });
  CHECK(report.runs == runs);
}

}  // namespace
}  // namespace kernbench::test::explored_product_test
