// Tests in exact bytes what a parameter takes on each rank of Megatron's data parallel training, at
// the peak of a step.

#include "runtime/optim/optimizer.h"
#include "test/parallel/data_parallel_world.h"
#include "tp/distributed_data_parallel.h"
#include "tp/parallel_state.h"

namespace kernbench::test::zero_memory_test {
namespace {

constexpr std::int64_t kSide = 64;
constexpr int kLayers = 4;
constexpr Bytes kParameters = kLayers * kSide * kSide;  // a multiple of what buckets are aligned to
constexpr Bytes kOnItsWay = 2 * kSide * kSide;  // a layer's gradient, until the buffer has it
constexpr std::int64_t kRows = 512;             // of a sample: activations decide when the peak is

nn::Sequential layers(const RuntimeContext& torch, DType dtype) {
  TensorOptions options = kOnOnePe;
  options.dtype = dtype;
  const nn::Sequential model(std::make_shared<nn::SequentialImpl>());
  for (int i = 0; i < kLayers; ++i) {
    model->push_back(nn::Linear(torch, nn::LinearOptions(kSide, kSide).bias(false), options));
  }
  return model;
}

// Parameters take 2 B, a gradient of 4 B that all micro-batches add to, and a d-th of a master and
// two moments of 4 B each (Megatron's table of its distributed optimizer).
TEST_CASE("ZeRO-1 takes 6 + 12 / d bytes for a parameter of bf16 at the peak", "[zero][memory]") {
  const int ranks = GENERATE(1, 2, 4, 8);
  const bool is_distributed = GENERATE(true, false);
  DataParallelWorld world(ranks, "ahbm", {.data = false});
  world.spawn([&](int rank) {
    tp::initialize_model_parallel(world.torch, {});
    tp::DistributedDataParallel model(
        world.torch, {.grad_reduce_in_fp32 = true, .use_distributed_optimizer = is_distributed},
        layers(world.torch, DType::bf16));
    tp::MegatronOptimizer optimizer(world.torch, model->buckets(), [](std::vector<Tensor> shards) {
      return std::make_unique<optim::AdamW>(std::move(shards));
    });
    const Tensor x =
        world.torch.zeros({kRows, kSide}, {.dtype = DType::bf16, .dp = kOnOnePe.dp, .name = "x"});
    for (int step = 0; step < 2; ++step) {
      world.torch.ahbm.synchronize(rank);
      world.torch.ahbm.reset_peak_memory_stats(rank);
      model->zero_grad_buffer();
      model(x).sum().backward();
      tp::finalize_model_grads(model);
      optimizer.step();
    }
    world.torch.ahbm.synchronize(rank);
    const auto [held, peak] = world.torch.ahbm.memory_stats(rank);
    const int sharers = is_distributed ? ranks : 1;
    CHECK(peak[MemoryKind::parameter] == 2 * kParameters);
    CHECK(held[MemoryKind::gradient] == 4 * kParameters);
    CHECK(peak[MemoryKind::gradient] == 4 * kParameters + kOnItsWay);
    CHECK(peak[MemoryKind::optimizer_state] == 12 * kParameters / sharers);
    const Bytes of_parameters = peak[MemoryKind::parameter] + peak[MemoryKind::gradient] +
                                peak[MemoryKind::optimizer_state] - kOnItsWay;
    CHECK(of_parameters == 6 * kParameters + 12 * kParameters / sharers);
    CHECK(peak.sum() == world.torch.ahbm.max_memory_allocated(rank));
  });
}

}  // namespace
}  // namespace kernbench::test::zero_memory_test
