// Training whose bits do not depend on the number of ranks.

#include "runtime/parallel/micro_batches.h"

#include <catch2/catch.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/functional/shape_operators.h"
#include "runtime/optim/optimizer.h"
#include "runtime/random/generator.h"
#include "test/parallel/fsdp_world.h"

namespace kernbench::test::micro_batches_test {
namespace {

using Catch::Contains;
using distributed::checkpoint::get_model_state_dict;
using nn::parallel::MicroBatches;

constexpr std::int64_t kSamples = 16;
constexpr std::int64_t kTokens = 5;  // of a sample
constexpr std::int64_t kWords = 11;
constexpr std::int64_t kWidth = 24;

enum class Wrapped : std::uint8_t { ddp, buckets, fsdp };

struct Trained {
  Floats losses;
  Floats weights;
};

Tensor attend(const Tensor& x) {
  const auto heads = [&] {
    return permute(reshape(x, {-1, kTokens, 3, kWidth / 3}), {0, 2, 1, 3});
  };
  const Tensor y =
      nn::functional::scaled_dot_product_attention(heads(), heads(), heads(), {.is_causal = true});
  return x + reshape(contiguous(permute(y, {0, 2, 1, 3})), {-1, kTokens, kWidth});
}

nn::Sequential make_model(const RuntimeContext& torch) {
  return nn::Sequential(nn::Embedding(torch, kWords, kWidth, kOnOnePe), nn::Functional(attend),
                        nn::LayerNorm(torch, nn::LayerNormOptions(kWidth), kOnOnePe),
                        nn::Linear(torch, kWidth, 3 * kWidth, kOnOnePe), nn::GELU(),
                        nn::Linear(torch, 3 * kWidth, kWords, kOnOnePe));
}

// Words of all samples, and those that follow them.
Tensor words_from(std::int64_t first, RuntimeContext& torch) {
  std::vector<std::int64_t> words;
  for (std::int64_t i = 0; i < kSamples * kTokens; ++i) {
    words.push_back((7 * (i + first) * (i + first) + 3 * i) % kWords);
  }
  return torch.tensor(words, {kSamples, kTokens}, {.dp = DPPolicy::on_one_pe()});
}

Floats whole_weights(const nn::Module& model) {
  Floats all;
  for (const Tensor& tensor : get_model_state_dict(model, {.full_state_dict = true}).values()) {
    const Floats own = tensor.to_vector();
    all.insert(all.end(), own.begin(), own.end());
  }
  return all;
}

// Two steps of the mean over all samples, each rank's in `micro_batches` of all ranks.
Trained train(int ranks, Wrapped by, const char* backend, int micro_batches) {
  const bool are_fixed = micro_batches == static_cast<int>(kSamples);
  DataParallelWorld world(ranks, backend, {.reproducible = Reproducible::pairs});
  Trained trained;
  world.spawn([&](int rank) {
    RuntimeContext& torch = world.torch;
    torch.manual_seed(5);
    const nn::Sequential model = make_model(torch);
    std::optional<nn::parallel::DistributedDataParallel<nn::Sequential>> ddp;
    if (by == Wrapped::fsdp) shard_layers(model);
    if (by != Wrapped::fsdp) {
      ddp.emplace(model,
                  nn::parallel::DistributedDataParallelOptions{
                      .bucket_cap_mb = 0.004, .gradient_as_bucket_view = by == Wrapped::buckets});
    }
    optim::AdamW optimizer(model->parameters(), 0.01);
    MicroBatches micro(torch, {.count = micro_batches});
    const Tensor inputs = words_from(0, torch);
    const Tensor targets = words_from(1, torch);
    for (int step = 0; step < 2; ++step) {
      optimizer.zero_grad();
      for (int round = 0; round < micro.rounds(); ++round) {
        const Tensor x = micro.of(inputs, round);
        const Tensor logits = ddp ? (*ddp)(x) : model(x);
        const Tensor loss = nn::functional::cross_entropy(
            reshape(logits, {-1, kWords}), reshape(contiguous(micro.of(targets, round)), {-1}));
        loss.backward();
        micro.take(model->parameters());
        if (are_fixed && micro.index(round) == 3) trained.losses.push_back(loss.item<float>());
      }
      optimizer.step();
    }
    const Floats weights = whole_weights(*model);
    if (rank == 0) trained.weights = weights;
  });
  return trained;
}

TEST_CASE("in micro-batches, 1 to 16 ranks train to the same bits", "[micro_batches]") {
  const auto by = GENERATE(Wrapped::ddp, Wrapped::buckets, Wrapped::fsdp);
  const auto* const backend = GENERATE("ahbm", "local");
  CAPTURE(static_cast<int>(by), backend);
  static const Trained alone = train(1, Wrapped::ddp, "ahbm", 16);
  REQUIRE(alone.losses.size() == 2);
  CHECK(alone.losses[0] > alone.losses[1]);
  for (const int ranks : {1, 2, 4, 8, 16}) {
    CAPTURE(ranks);
    const Trained trained = train(ranks, by, backend, 16);
    CHECK(trained.losses == alone.losses);
    CHECK(trained.weights == alone.weights);
  }
  // The same samples, cut into as many micro-batches as there are ranks.
  CHECK(train(4, by, backend, 4).weights != train(2, by, backend, 2).weights);
}

// Two rows of a micro-batch, on the PEs that share a rank's rows.
Tensor rows_of(RuntimeContext& torch, int micro_batch, int seed, const DPPolicy& dp) {
  const random::Draw drawn(static_cast<std::uint64_t>(seed),
                           static_cast<std::uint64_t>(micro_batch));
  Floats elements;
  for (std::int64_t i = 0; i < 2 * kWidth; ++i) elements.push_back(drawn.normal(i));
  return torch.tensor(elements, {2, kWidth}, {.dp = dp});
}

Floats train_on_pes(int ranks, Wrapped by, const UsedPes& on) {
  DataParallelWorld world(ranks, "ahbm", {.reproducible = Reproducible::pairs}, on.cubes);
  Floats weights;
  world.spawn([&](int rank) {
    RuntimeContext& torch = world.torch;
    torch.manual_seed(5);
    const nn::Sequential model(nn::Linear(torch, kWidth, 40, on.weights()),
                               nn::LayerNorm(torch, nn::LayerNormOptions(40), on.weights()),
                               nn::GELU(), nn::Linear(torch, 40, kWidth, on.weights()));
    std::optional<nn::parallel::DistributedDataParallel<nn::Sequential>> ddp;
    if (by == Wrapped::ddp) ddp.emplace(model);
    if (by == Wrapped::fsdp) shard_layers(model);
    optim::SGD optimizer(model->parameters(), 0.1);
    MicroBatches micro(torch, {.count = 8});
    for (int step = 0; step < 2; ++step) {
      optimizer.zero_grad();
      for (int round = 0; round < micro.rounds(); ++round) {
        const Tensor x = rows_of(torch, micro.index(round), 1, on.rows());
        const Tensor t = rows_of(torch, micro.index(round), 2, on.rows());
        ((ddp ? (*ddp)(x) : model(x)) * t).sum().backward();
        micro.take(model->parameters());
      }
      optimizer.step();
    }
    const Floats own = whole_weights(*model);
    if (rank == 0) weights = own;
  });
  return weights;
}

TEST_CASE("so do ranks of several PEs that share their weights", "[micro_batches]") {
  const auto by = GENERATE(Wrapped::ddp, Wrapped::fsdp);
  const UsedPes on = GENERATE(UsedPes{1, 2}, UsedPes{2, 1});
  CAPTURE(static_cast<int>(by), on.cubes, on.pes);
  const Floats alone = train_on_pes(1, by, on);
  for (const int ranks : {2, 4, 8}) CHECK(train_on_pes(ranks, by, on) == alone);
}

TEST_CASE("a parameter that some micro-batches do not use has zeros there", "[micro_batches]") {
  DataParallelWorld world(1, "local", {.reproducible = Reproducible::pairs});
  world.spawn([&](int) {
    const nn::Linear model(world.torch, 2, 1, kOnOnePe);
    MicroBatches micro(world.torch, {.count = 4});
    for (int round = 0; round < micro.rounds(); ++round) {
      const Tensor x = world.torch.full({1, 2}, 1 + micro.index(round), kOnOnePe);
      (round % 3 == 0 ? model(x).sum() : model->bias.sum()).backward();
      micro.take(model->parameters());
    }
    CHECK(model->weight.grad().to_vector() == Floats(2, (1 + 4) / 4.0F));
    CHECK(model->bias.grad().to_vector() == Floats{1});
  });
}

TEST_CASE("micro-batches that ranks cannot share are refused", "[micro_batches][errors]") {
  const auto refused = [](int ranks, int count, Reproducible level) {
    DataParallelWorld world(ranks, "local", {.reproducible = level});
    return world.refusal([&](int) { MicroBatches(world.torch, {.count = count}); });
  };
  CHECK_THAT(refused(3, 16, Reproducible::pairs),
             Contains("KB-C020") && Contains("16 micro-batches over 3 ranks; powers of two"));
  CHECK_THAT(refused(4, 2, Reproducible::pairs), Contains("2 micro-batches over 4 ranks"));
  CHECK_THAT(refused(4, 12, Reproducible::pairs), Contains("12 micro-batches over 4 ranks"));
  CHECK_THAT(refused(2, 0, Reproducible::pairs), Contains("0 micro-batches over 2 ranks"));
  CHECK_THAT(refused(2, 16, Reproducible::batch), Contains("KERNBENCH_WORLD_INVARIANT=1"));
  DataParallelWorld world(2, "local", {.reproducible = Reproducible::pairs});
  CHECK_THAT(world.refusal([&](int) {
    const MicroBatches micro(world.torch, {.count = 4});
    micro.of(world.torch.zeros({6, 2}, kOnOnePe), 0);
  }),
             Contains("[6, 2] are no batch of 4 micro-batches of equal size"));
  CHECK_THAT(world.refusal([&](int) {
    MicroBatches micro(world.torch, {.count = 4});
    const Tensor v = world.torch.ones({2}, kOnOnePe).requires_grad_();
    const Tensor w = world.torch.ones({2}, kOnOnePe).requires_grad_();
    (v + w).sum().backward();
    micro.take({v});
    micro.take({w});
  }),
             Contains("KB-C020") && Contains("are not the 1 of the step's first round"));
  CHECK_THAT(world.refusal([&](int) {
    const MicroBatches micro(world.torch, {.count = 4});
    micro.of(world.torch.zeros({4, 2}, kOnOnePe), 2);
  }),
             Contains("round 2 of 2"));
  CHECK_THAT(world.refusal([&](int rank) {
    const auto group = world.torch.distributed.new_group({0});
    if (rank == 1) MicroBatches(world.torch, {.process_group = group});
  }),
             Contains("the caller is not in the group"));
  CHECK_THAT(world.refusal([&](int) {
    MicroBatches(world.torch, {.count = 4}).take({world.torch.ones({2}, kOnOnePe)});
  }),
             Contains("KB-C020") && Contains("no parameter has a gradient"));
}

}  // namespace
}  // namespace kernbench::test::micro_batches_test
