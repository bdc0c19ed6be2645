// Modules that fully_shard has cut, after an exception has left a pass of theirs, or when they are
// gone.

#include <stdexcept>

#include "runtime/optim/optimizer.h"
#include "test/parallel/fsdp_world.h"
#include "tp/layers.h"
#include "tp/parallel_state.h"

namespace kernbench::test::fsdp_exceptions_test {
namespace {

enum class Fault { none, in_forward, in_backward };

// A layer that throws where it is told to.
struct FaultyImpl : nn::Module {
  explicit FaultyImpl(const RuntimeContext& torch)
      : layer(register_module("layer", nn::Linear(torch, 4, 4, kOnOnePe))) {}
  Tensor forward(const Tensor& x) const {
    const Tensor y = layer(x);
    if (fault == Fault::in_forward) throw std::runtime_error("no");
    if (fault == Fault::in_backward) {
      y.register_hook([](const Tensor&) -> Tensor { throw std::runtime_error("no"); });
    }
    return y;
  }
  nn::Linear layer;
  Fault fault = Fault::none;
};

struct Way {
  bool blocks = false;
  bool prefetches = false;
  FullyShardOptions options = {};
};

// The gradients of two steps, of which the first one fails at first; between them parameters
// double.
std::vector<Floats> gradients(const Way& way, Fault fault) {
  DataParallelWorld world(2, "ahbm", {.launch_blocking = way.blocks});
  std::vector<Floats> all;
  world.spawn([&](int rank) {
    const nn::ModuleHolder<FaultyImpl> faulty(world.torch);
    const nn::Sequential model(nn::Linear(world.torch, 4, 4, kOnOnePe), faulty,
                               nn::Linear(world.torch, 4, 4, kOnOnePe));
    fill_parameters(world.torch, *model);
    std::vector<FSDPModule> inner;
    for (const auto& layer : model->children()) inner.push_back(fully_shard(*layer, way.options));
    if (way.prefetches) inner[0].set_modules_to_forward_prefetch({inner[1], inner[2]});
    fully_shard(model);
    const Tensor x = world.tensor({1, 2, 3, 4}, {1, 4});
    for (int step = 0; step < 2; ++step) {
      faulty->fault = fault;
      if (fault != Fault::none) {
        CHECK_THROWS_WITH(model(x).sum().backward(), "no");
        world.torch.ahbm.synchronize();  // all_gathers may be under way
        model->zero_grad();
      }
      for (const Tensor& parameter : model->parameters()) {
        const NoGradGuard no_grad(world.torch);
        Tensor(parameter).mul_(2);
      }
      faulty->fault = Fault::none;
      model(x).sum().backward();
      for (const Tensor& parameter : model->parameters()) {
        if (rank == 0) all.push_back(parameter.grad().to_vector());
      }
      model->zero_grad();
    }
  });
  return all;
}

TEST_CASE("a pass that an exception has left does not touch the next one", "[fsdp]") {
  const Fault fault = GENERATE(Fault::in_forward, Fault::in_backward);
  const bool blocks = GENERATE(true, false);
  const bool prefetches = GENERATE(true, false);
  const bool reshards = GENERATE(true, false);
  CAPTURE(fault, blocks, prefetches);
  const Way way{blocks, prefetches, {.reshard_after_forward = reshards}};
  const std::vector<Floats> expected = gradients(way, Fault::none);
  CHECK(expected.size() == 12);
  CHECK(gradients(way, fault) == expected);
}

TEST_CASE("a layer of tp whose forward() has thrown is called again", "[fsdp]") {
  DataParallelWorld world(2);
  world.spawn([&](int) {
    tp::initialize_model_parallel(world.torch);
    tp::ColumnParallelLinear up(world.torch,
                                {.in_features = 4, .out_features = 4, .dtype = DType::f32});
    fully_shard(up);
    CHECK_THROWS_AS(up(world.torch.ones({1, 3}, kOnOnePe)), DeviceError);
    world.torch.ahbm.synchronize();
    for (const Tensor& parameter : up.nn::Module::parameters()) {
      const NoGradGuard no_grad(world.torch);
      Tensor(parameter).mul_(2);
    }
    up(world.torch.ones({1, 4}, kOnOnePe)).sum().backward();
    CHECK(up.nn::Module::parameters().front().grad().to_vector() == Floats(8, 1));
  });
}

TEST_CASE("a handle outlives its module", "[fsdp]") {
  const bool blocks = GENERATE(true, false);
  DataParallelWorld world(2, "ahbm", {.launch_blocking = blocks});
  world.spawn([&](int) {
    std::optional<FSDPModule> handle;
    Tensor loss;
    {
      const nn::Sequential model = two_layers(world.torch, 8);
      handle = shard_layers(model);
      loss = model(world.torch.ones({1, 4}, kOnOnePe)).sum();
    }
    handle->set_requires_gradient_sync(false);
    handle->set_reshard_after_forward(true);
    loss.backward();
    handle->reshard();
    CHECK(handle->last_step().buckets.size() > 0);
  });
}

TEST_CASE("of modules that are given together, those inside of others count once", "[fsdp]") {
  DataParallelWorld world(2);
  world.spawn([&](int) {
    const nn::Linear inner(world.torch, 4, 4, kOnOnePe);
    const nn::Sequential outer(inner, nn::ReLU());
    const nn::Sequential model(std::make_shared<nn::SequentialImpl>());
    const nn::Linear other(world.torch, 4, 4, kOnOnePe);
    model->push_back(outer);
    model->push_back(other);
    fully_shard({outer.ptr(), inner.ptr(), other.ptr(), outer.ptr()});
    fully_shard(model);
    model(world.torch.ones({1, 4}, kOnOnePe)).sum().backward();
    CHECK(model->parameters().size() == 4);
    for (const Tensor& parameter : model->parameters()) CHECK(parameter.grad().defined());
  });
}

}  // namespace
}  // namespace kernbench::test::fsdp_exceptions_test
