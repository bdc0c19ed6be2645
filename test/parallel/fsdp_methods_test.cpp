// Tests methods of sharded modules: divisors of one's own, and methods beside forward().

#include "test/parallel/fsdp_world.h"

namespace kernbench::test::fsdp_methods_test {
namespace {

TEST_CASE("gradients are divided by a factor of one's own", "[fsdp]") {
  DataParallelWorld world(2);
  const DType reduce = GENERATE(DType::f32, DType::f16);
  world.spawn([&](int rank) {
    const nn::Linear linear(world.torch, 1, 2, kOnOnePe);
    const auto sharded = fully_shard(linear, {.mp_policy = {.reduce_dtype = reduce}});
    sharded.set_gradient_divide_factor(4);
    linear(world.tensor({static_cast<float>(rank + 1)}, {1, 1})).sum().backward();
    CHECK(linear->parameters().front().grad().to_vector() == Floats{0.75F});
  });
  CHECK_THAT(world.refusal([&](int) {
    fully_shard(nn::Linear(world.torch, 1, 2, kOnOnePe)).set_gradient_divide_factor(0);
  }),
             Catch::Contains("[KB-A020] set_gradient_divide_factor: a positive number"));
}

TEST_CASE("other methods than forward() gather the parameters if they are registered", "[fsdp]") {
  struct NetImpl : nn::Module {
    explicit NetImpl(const RuntimeContext& torch)
        : w(register_parameter("w", torch.full({4}, 2, kOnOnePe))) {}
    Tensor forward(const Tensor& x) const { return w * x; }
    Tensor generate(const Tensor& x, double by) const { return w * x * by; }
    Tensor w;
  };
  KERNBENCH_MODULE(Net);
  DataParallelWorld world(2);
  world.spawn([&](int rank) {
    const Net net(world.torch);
    fully_shard(net);
    const auto generate = distributed::fsdp::register_fsdp_forward_method(net, &NetImpl::generate);
    const Tensor y = generate(world.torch.full({4}, rank + 1, kOnOnePe), 3.0);
    CHECK(y.to_vector() == Floats(4, static_cast<float>(6 * (rank + 1))));
    y.sum().backward();
    CHECK(net->parameters().front().grad().to_vector() == Floats(2, 4.5F));
  });
}

}  // namespace
}  // namespace kernbench::test::fsdp_methods_test
