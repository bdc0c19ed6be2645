// Tests in exact bytes what ranks hold of a module that fully_shard has cut.

#include <cstddef>

#include "runtime/optim/optimizer.h"
#include "test/parallel/fsdp_world.h"

namespace kernbench::test::fully_shard_memory_test {
namespace {

constexpr std::int64_t kSide = 64;
constexpr Bytes kWhole = kSide * kSide * 4;  // of a layer's weight
constexpr Bytes kRow = kSide * 4;  // of a sample's activation; HBM is given in such blocks
constexpr int kLayers = 6;         // each has a group, but for the last one, the root's

nn::Sequential layers(const RuntimeContext& torch) {
  const nn::Sequential model(std::make_shared<nn::SequentialImpl>());
  for (int i = 0; i < kLayers; ++i) {
    model->push_back(nn::Linear(torch, nn::LinearOptions(kSide, kSide).bias(false), kOnOnePe));
  }
  return model;
}

void shard(const nn::Sequential& model, const FullyShardOptions& options = {}) {
  const auto children = model->children();
  for (std::size_t i = 0; i + 1 < children.size(); ++i) fully_shard(*children[i], options);
  fully_shard(model);
}

TEST_CASE("parameters and an optimizer's state take a W-th of their bytes", "[fsdp][memory]") {
  const int ranks = GENERATE(1, 2, 4, 8);
  const bool blocks = GENERATE(true, false);
  DataParallelWorld world(ranks, "ahbm", {.data = false, .launch_blocking = blocks});
  world.spawn([&](int rank) {
    const Bytes before = world.torch.ahbm.memory_allocated(rank);
    const auto held = [&] {
      world.torch.ahbm.synchronize(rank);  // collectives keep their tensors until they are done
      return world.torch.ahbm.memory_allocated(rank) - before;
    };
    const nn::Sequential model = layers(world.torch);
    CHECK(held() == kLayers * kWhole);
    shard(model);
    CHECK(held() == kLayers * kWhole / ranks);
    optim::AdamW optimizer(model->parameters());
    for (int step = 0; step < 2; ++step) {
      model(world.torch.zeros({1, kSide}, kOnOnePe)).sum().backward();
      CHECK(held() == (step == 0 ? 2 : 4) * kLayers * kWhole / ranks);  // and gradients
      optimizer.step();
      optimizer.zero_grad();
      CHECK(held() == 3 * kLayers * kWhole / ranks);
    }
  });
}

// A forward pass has, beside the root's parameters, the buffers of two all_gathers, or one and the
// parameters that come out of it.  A backward pass has, at its largest, when it computes the second
// layer's gradients: the root's parameters and gradient, which leave last; the layer's parameters
// and gradient; the buffer of the all_gather for the first layer, and that of the third one's
// reduce_scatter; and the gradients' shards of the layers behind.
TEST_CASE("a step holds two unsharded groups beside the root", "[fsdp][memory]") {
  constexpr int kRanks = 4;
  constexpr Bytes kShard = kWhole / kRanks;
  struct Expected {
    bool reshards;
    Bytes forward, between, backward;
  };
  const Expected expected = GENERATE(
      Expected{true, 3 * kWhole + 6 * kRow, kWhole + 7 * kRow, 6 * kWhole + 3 * kShard + 6 * kRow},
      // All are kept: those that the backward pass has not come to are there beside it.
      Expected{false, (kLayers + 1) * kWhole + 7 * kRow, kLayers * kWhole + 7 * kRow,
               8 * kWhole + kShard + 8 * kRow});
  CAPTURE(expected.reshards);
  DataParallelWorld world(kRanks, "ahbm", {.data = false, .launch_blocking = true});
  world.spawn([&](int rank) {
    const nn::Sequential model = layers(world.torch);
    shard(model, {.reshard_after_forward = expected.reshards});
    const Bytes shards = world.torch.ahbm.memory_allocated(rank);
    const auto most = [&] { return world.torch.ahbm.max_memory_allocated(rank) - shards; };
    world.torch.ahbm.reset_peak_memory_stats(rank);
    const Tensor y = model(world.torch.zeros({1, kSide}, kOnOnePe));
    CHECK(most() == expected.forward);
    CHECK(world.torch.ahbm.memory_allocated(rank) - shards == expected.between);
    world.torch.ahbm.reset_peak_memory_stats(rank);
    y.backward(world.torch.zeros({1, kSide}, kOnOnePe));
    CHECK(most() == expected.backward);
  });
}

TEST_CASE("after the forward pass ranks keep the parts of a smaller group", "[fsdp][memory]") {
  const bool blocks = GENERATE(true, false);
  DataParallelWorld world(4, "ahbm", {.data = false, .launch_blocking = blocks});
  world.spawn([&](int rank) {
    const nn::Sequential model = layers(world.torch);
    shard(model, {.reshard_after_forward = 2});
    const auto held = [&] {
      world.torch.ahbm.synchronize(rank);
      return world.torch.ahbm.memory_allocated(rank);
    };
    const Bytes shards = held();
    const Tensor y = model(world.torch.zeros({1, kSide}, kOnOnePe));
    CHECK(held() - shards == kWhole + (kLayers - 1) * kWhole / 2 + (kLayers + 1) * kRow);
    y.backward(world.torch.zeros({1, kSide}, kOnOnePe));
    CHECK(held() - shards == kLayers * kWhole / 4 + kRow);  // gradients, and y
  });
}

// y = silu(x * weight) * weight: operators that kb::compile defers.
struct ScaleImpl : nn::Module {
  ScaleImpl(const RuntimeContext& torch, float value)
      : weight(register_parameter("weight", torch.full({kSide, kSide}, value, kOnOnePe))) {}
  Tensor forward(const Tensor& x) const { return nn::functional::silu(x * weight) * weight; }
  Tensor weight;
};
KERNBENCH_MODULE(Scale);

struct Scaled {
  Floats result;
  Floats gradients;
  std::vector<Bytes> most;  // held in the forward pass, and in the backward pass
};

// Blocks that are cut, whose call is compiled or not.
Scaled scale(bool is_compiled) {
  Scaled scaled;
  DataParallelWorld world(2, "ahbm", {.launch_blocking = true});
  world.spawn([&](int rank) {
    const nn::Sequential model(std::make_shared<nn::SequentialImpl>());
    for (int i = 1; i <= kLayers; ++i) {
      model->push_back(Scale(world.torch, static_cast<float>(i) / 4));
    }
    shard(model);
    const Tensor x = world.torch.ones({kSide, kSide}, kOnOnePe).requires_grad_();
    const Bytes held = world.torch.ahbm.memory_allocated(rank);
    const auto note = [&] {
      if (rank == 0) scaled.most.push_back(world.torch.ahbm.max_memory_allocated(rank) - held);
      world.torch.ahbm.reset_peak_memory_stats(rank);
    };
    world.torch.ahbm.reset_peak_memory_stats(rank);
    const auto run = [&](const Tensor& of) { return model(of); };
    const Tensor y = is_compiled ? compile(run)(x) : run(x);
    note();
    y.sum().backward();
    note();
    if (rank != 0) return;
    scaled.result = y.to_vector();
    scaled.gradients = x.grad().to_vector();
    for (const Tensor& parameter : model->parameters()) {
      const Floats own = parameter.grad().to_vector();
      scaled.gradients.insert(scaled.gradients.end(), own.begin(), own.end());
    }
  });
  return scaled;
}

TEST_CASE("a compiled call reads parameters before fully_shard frees them", "[fsdp][compile]") {
  const Scaled eager = scale(false);
  const Scaled compiled = scale(true);
  CHECK(compiled.result == eager.result);
  CHECK(compiled.gradients == eager.gradients);
  CHECK(compiled.most[0] < eager.most[0]);  // silu's operand is not stored
  CHECK(compiled.most[1] <= eager.most[1]);
}

// In a step whose collectives are no kernels.
std::size_t commands(int ranks) {
  DataParallelWorld world(ranks, "local", {.data = false});
  world.spawn([&](int) {
    const nn::Sequential model = layers(world.torch);
    shard(model);
    model(world.torch.zeros({1, kSide}, kOnOnePe)).sum().backward();
  });
  return world.torch.engine().op_log().size();
}

TEST_CASE("a rank's copies are as many commands however many ranks there are", "[fsdp]") {
  CHECK(commands(64) == 32 * commands(2));
}

// Two weights of 96 MiB: their shards, what is gathered and the first of them fit into the 512 MiB
// of a PE, but not the second.
TEST_CASE("a group that does not fit holds nothing, and is refused again", "[fsdp][memory]") {
  DataParallelWorld world(1, "ahbm", {.data = false, .launch_blocking = true});
  world.spawn([&](int rank) {
    const Tensor x = world.torch.zeros({1, 4096}, kOnOnePe);
    const nn::Sequential model(
        nn::Linear(world.torch, nn::LinearOptions(4096, 6144).bias(false), kOnOnePe),
        nn::Linear(world.torch, nn::LinearOptions(6144, 4096).bias(false), kOnOnePe));
    fully_shard(model);
    const Bytes before = world.torch.ahbm.memory_allocated(rank);
    for (int i = 0; i < 2; ++i) {
      CHECK_THAT(error_of<DeviceError>([&] { model(x); }),
                 Says("KB-M010", "for tensor 'weight' [4096, 6144] f32"));
      CHECK(world.torch.ahbm.memory_allocated(rank) == before);
    }
  });
}

}  // namespace
}  // namespace kernbench::test::fully_shard_memory_test
