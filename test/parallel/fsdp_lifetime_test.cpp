// Modules and handles that outlive others of one root, and what nobody has waited for.

#include "test/parallel/fsdp_world.h"

namespace kernbench::test::fsdp_lifetime_test {
namespace {

TEST_CASE("an inner module learns on when its root is gone", "[fsdp]") {
  const bool blocks = GENERATE(true, false);
  DataParallelWorld world(2, "ahbm", {.launch_blocking = blocks});
  world.spawn([&](int) {
    const nn::Linear inner(world.torch, 4, 4, kOnOnePe);
    const Tensor x = world.tensor({1, 2, 3, 4}, {1, 4});
    {
      const nn::Sequential root(inner, nn::Linear(world.torch, 4, 4, kOnOnePe));
      shard_layers(root);
      root(x);  // without a backward pass
    }
    inner(x).sum().backward();
    CHECK(inner->parameters().front().grad().to_vector() == Floats{1, 2, 3, 4, 1, 2, 3, 4});
  });
}

TEST_CASE("a handle names the parameters of a net that is gone", "[fsdp]") {
  const bool blocks = GENERATE(true, false);
  DataParallelWorld world(2, "ahbm", {.data = false, .launch_blocking = blocks});
  world.spawn([&](int) {
    const auto train = [&] {
      const nn::Sequential model = two_layers(world.torch, 8);
      const FSDPModule fsdp = shard_layers(model);
      model(world.torch.zeros({1, kBatchColumns}, kOnOnePe)).sum().backward();
      return fsdp;
    };
    const nn::parallel::StepTimes step = train().last_step();
    REQUIRE(step.buckets.size() == 6);
    CHECK(step.buckets.front().parameters == std::vector<std::string>{"0.weight", "0.bias"});
    CHECK(step.buckets[1].parameters == std::vector<std::string>{"2.weight", "2.bias"});
  });
}

// The backward pass of the second layer gathers the first, which no gradient comes to.
struct CutImpl : nn::Module {
  explicit CutImpl(const RuntimeContext& torch)
      : first(register_module("first", nn::Linear(torch, 4, 4, kOnOnePe))),
        second(register_module("second", nn::Linear(torch, 4, 4, kOnOnePe))) {}
  Tensor forward(const Tensor& x) const { return second(first(x).detach()); }

  nn::Linear first;
  nn::Linear second;
};

TEST_CASE("an all_gather that nobody uses has its times, and frees its buffer", "[fsdp][timing]") {
  const int ranks = GENERATE(1, 2);
  const bool blocks = GENERATE(true, false);
  CAPTURE(ranks, blocks);
  DataParallelWorld world(ranks, "ahbm", {.data = false, .launch_blocking = blocks});
  world.spawn([&](int rank) {
    const nn::ModuleHolder<CutImpl> cut(world.torch);
    fully_shard(cut->first);
    fully_shard(cut->second);
    const FSDPModule fsdp = fully_shard(cut);
    const Tensor x = world.torch.zeros({1, 4}, kOnOnePe);
    const auto step = [&] {
      cut(x).sum().backward();
      cut->zero_grad();
      const nn::parallel::StepTimes times = fsdp.last_step();
      REQUIRE(times.buckets.size() == (ranks == 1 ? 0 : 5));
      for (const auto& bucket : times.buckets) CHECK(bucket.ended > bucket.started);
      return world.torch.ahbm.memory_allocated(rank);
    };
    const Bytes after_one = step();
    CHECK(step() == after_one);
  });
}

}  // namespace
}  // namespace kernbench::test::fsdp_lifetime_test
