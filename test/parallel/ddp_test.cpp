// Tests what DistributedDataParallel promises, as in torch 1.13.1.

#include "runtime/nn/module.h"
#include "test/parallel/data_parallel_world.h"

namespace kernbench::test::ddp_test {
namespace {

using nn::parallel::DistributedDataParallel;

// y = a x, and y = b x if a rank asks for it.
struct ForkImpl : nn::Module {
  explicit ForkImpl(const RuntimeContext& torch)
      : a(register_parameter("a", torch.ones({1}, kOnOnePe))),
        b(register_parameter("b", torch.ones({1}, kOnOnePe))) {}
  Tensor forward(const Tensor& x, bool both) const { return both ? a * x + b * x : a * x; }

  Tensor a, b;
};
KERNBENCH_MODULE(Fork);

float grad_of(const Tensor& parameter) {
  return parameter.grad().item();
}

TEST_CASE("all ranks begin with rank 0's parameters and buffers", "[ddp]") {
  struct NetImpl : nn::Module {
    NetImpl(const RuntimeContext& torch, int rank)
        : weight(register_parameter("weight", torch.full({3}, rank + 1, kOnOnePe))),
          frozen(register_parameter("frozen", torch.full({2}, rank + 5, kOnOnePe), false)),
          count(register_buffer("count", torch.full({1}, rank + 7, kOnOnePe))) {}
    Tensor forward(const Tensor& x) const { return weight * x; }
    Tensor weight, frozen, count;
  };
  KERNBENCH_MODULE(Net);
  DataParallelWorld world(4);
  world.spawn([&](int rank) {
    const Net net(world.torch, rank);
    DistributedDataParallel ddp(net);
    CHECK(net->weight.to_vector() == Floats(3, 1));
    CHECK(net->frozen.to_vector() == Floats(2, 5));
    CHECK(net->count.to_vector() == Floats{7});
    CHECK(ddp->named_parameters().keys() ==
          std::vector<std::string>{"module.weight", "module.frozen"});
    // Buffers are rank 0's again when a forward pass begins.
    nn::init::constant_(net->count, rank + 1);
    ddp(world.tensor({1, 1, 1}, {3}));
    CHECK(net->count.to_vector() == Floats{1});
  });
}

TEST_CASE("backward leaves the mean of all ranks' gradients, accumulated ones among them",
          "[ddp]") {
  DataParallelWorld world(2);
  world.spawn([&](int rank) {
    const Fork fork(world.torch);
    DistributedDataParallel ddp(fork);
    const Tensor x = world.tensor({static_cast<float>(rank + 1)}, {1});
    ddp(x, true).backward();
    CHECK(grad_of(fork->a) == 1.5F);
    ddp(x, true).backward();
    CHECK(grad_of(fork->a) == 3);
    ddp->zero_grad();
    // It is the forward pass that decides whether gradients are reduced.
    Tensor y;
    {
      const auto guard = ddp->no_sync();
      y = ddp(x, true);
    }
    y.backward();
    CHECK(grad_of(fork->a) == static_cast<float>(rank + 1));
    ddp->zero_grad();
    y = ddp(x, true);
    {
      const auto guard = ddp->no_sync();
      y.backward();
    }
    CHECK(grad_of(fork->b) == 1.5F);
  });
}

TEST_CASE("a parameter that is used on some ranks alone gets their sum over all ranks", "[ddp]") {
  DataParallelWorld world(2);
  const bool both = GENERATE(true, false);
  world.spawn([&](int rank) {
    const Fork fork(world.torch);
    DistributedDataParallel ddp(fork, {.find_unused_parameters = true});
    const Tensor x = world.tensor({1}, {1});
    for (int i = 0; i < 3; ++i) {
      ddp->zero_grad();
      ddp(x, both && rank == 0).backward();
      CHECK(grad_of(fork->a) == 1);
      CHECK(fork->b.grad().defined() == both);
      if (both) CHECK(grad_of(fork->b) == 0.5F);
    }
  });
}

// As torch's Reducer has it since 2.0: "as long as it is used once during no_sync session, it is
// marked as used"; 1.13.1 left each rank with a gradient of its own.
TEST_CASE("a parameter that was used under no_sync() alone is reduced with the others", "[ddp]") {
  DataParallelWorld world(2);
  const bool views = GENERATE(true, false);
  world.spawn([&](int rank) {
    const Fork fork(world.torch);
    DistributedDataParallel ddp(fork,
                                {.find_unused_parameters = true, .gradient_as_bucket_view = views});
    const Tensor x = world.tensor({1}, {1});
    for (int i = 0; i < 3; ++i) {
      ddp->zero_grad();
      {
        const auto guard = ddp->no_sync();
        ddp(x, rank == 0).backward();
      }
      ddp(x, false).backward();
      CHECK(grad_of(fork->a) == 2);
      CHECK(grad_of(fork->b) == 0.5F);
    }
    ddp->zero_grad();
    ddp(x, false).backward();
    CHECK_FALSE(fork->b.grad().defined());
  });
}

TEST_CASE("a static graph's unused parameters are learned in the first pass", "[ddp]") {
  DataParallelWorld world(2);
  world.spawn([&](int rank) {
    const Fork fork(world.torch);
    DistributedDataParallel ddp(fork, {.static_graph = true});
    const Tensor x = world.tensor({static_cast<float>(rank)}, {1});
    for (int i = 0; i < 4; ++i) {
      ddp->zero_grad();
      ddp(x, false).backward();
      CHECK(grad_of(fork->a) == 0.5F);
      CHECK_FALSE(fork->b.grad().defined());
    }
    CHECK(ddp->_get_ddp_logging_data().has_rebuilt_buckets);
  });
}

TEST_CASE("gradients that holders have summands of become whole", "[ddp]") {
  DataParallelWorld world(2, "ahbm", {}, 2);
  world.spawn([&](int rank) {
    const DPPolicy copies{.num_cubes = 2, .num_pes = 1};
    const DPPolicy rows{.cube = Shard::row_wise, .num_cubes = 2, .num_pes = 1};
    const nn::Linear linear(world.torch, 2, 1, {.dp = copies});
    DistributedDataParallel ddp(linear);
    for (int i = 0; i < 3; ++i) {
      ddp->zero_grad();
      const float r = static_cast<float>(rank + 1);
      ddp(world.tensor({r, 0, 2 * r, 4}, {2, 2}, rows)).sum().backward();
      CHECK(linear->weight.grad().to_vector() == Floats{4.5F, 4});
      CHECK(linear->bias.grad().to_vector() == Floats{2});
      CHECK(linear->weight.grad().shard_to_vector(1) == Floats{4.5F, 4});
    }
  });
}

TEST_CASE("modules that differ between ranks are found when they are wrapped", "[ddp]") {
  DataParallelWorld world(2);
  const auto wrapped = [&](const std::function<nn::Linear(int)>& make) {
    return world.refusal([&](int rank) { DistributedDataParallel ddp(make(rank)); });
  };
  CHECK_THAT(wrapped([&](int rank) {
               return nn::Linear(world.torch, nn::LinearOptions(2, 2).bias(rank == 1), kOnOnePe);
             }),
             Says("KB-A015",
                  "DDP expects same model across all ranks, but Rank 0 has 1 params, "
                  "while rank 1 has inconsistent 2 params.",
                  "rank 1 has also 'bias'"));
  CHECK_THAT(wrapped([&](int rank) { return nn::Linear(world.torch, 2 + rank, 2, kOnOnePe); }),
             Says("KB-A015",
                  "[1]: params[0] in this process with sizes [2, 3] appears not to "
                  "match sizes of the same param in process 0.",
                  "'weight'"));
}

TEST_CASE("a rank that froze a parameter before wrapping is named", "[ddp]") {
  DataParallelWorld world(2);
  CHECK_THAT(world.refusal([&](int rank) {
    const Fork fork(world.torch);
    Tensor(fork->b).requires_grad_(rank == 0);
    DistributedDataParallel ddp(fork);
  }),
             Says("KB-A015",
                  "[1]: params[1] in this process, 'b', requires no gradient, in process 0 a "
                  "gradient"));
}

TEST_CASE("a rank that is no member of the group does not wrap", "[ddp]") {
  DataParallelWorld world(3, GENERATE("ahbm", "local"));
  CHECK_THAT(world.refusal([&](int) {
    const auto some = world.torch.distributed.new_group({0, 2});
    DistributedDataParallel ddp(Fork(world.torch), {.process_group = some});
  }),
             Says("KB-A015", "rank 1 is not a member of its process_group", "ddp_test.cpp"));
}

TEST_CASE("a module without gradients is not wrapped", "[ddp]") {
  DataParallelWorld world(2);
  CHECK_THAT(world.refusal([&](int) {
    const nn::Linear linear(world.torch, 2, 2, kOnOnePe);
    for (Tensor parameter : linear->parameters()) parameter.requires_grad_(false);
    DistributedDataParallel ddp(linear);
  }),
             Says("KB-A015",
                  "DistributedDataParallel is not needed when a module doesn't have any "
                  "parameter that requires a gradient."));
}

TEST_CASE("a parameter that got no gradient is named when the next pass begins", "[ddp]") {
  DataParallelWorld world(2);
  CHECK_THAT(world.refusal([&](int) {
    DistributedDataParallel ddp(Fork(world.torch));
    const Tensor x = world.tensor({1}, {1});
    for (int i = 0; i < 2; ++i) ddp(x, false).backward();
  }),
             Says("KB-A016",
                  "Expected to have finished reduction in the prior iteration before "
                  "starting a new one.",
                  "You can enable unused parameter detection",
                  "Parameters which did not receive grad for rank 0: b",
                  "Parameter indices which did not receive grad for rank 0: 1"));
}

TEST_CASE("a rank that skips a bucket is named, and nobody hangs", "[ddp]") {
  DataParallelWorld world(2);
  CHECK_THAT(world.refusal([&](int rank) {
    DistributedDataParallel ddp(Fork(world.torch));
    const Tensor x = world.tensor({1}, {1});
    for (int i = 0; i < 2; ++i) ddp(x, rank == 0).backward();
  }),
             Says("KB-A016", "Parameters which did not receive grad for rank 1: b"));
}

TEST_CASE("a graph that changes although it is said to be static is refused", "[ddp]") {
  DataParallelWorld world(2);
  const bool first = GENERATE(true, false);
  const std::string text = world.refusal([&](int) {
    DistributedDataParallel ddp(Fork(world.torch), {.static_graph = true});
    const Tensor x = world.tensor({1}, {1});
    for (int i = 0; i < 3; ++i) ddp(x, (i == 0) == first).backward();
  });
  CHECK_THAT(text, Says("KB-A016", "changed in this iteration",
                        "this is not compatible with static_graph set to True."));
}

TEST_CASE("a parameter that is used again in the same pass is refused by its name", "[ddp]") {
  DataParallelWorld world(2);
  CHECK_THAT(world.refusal([&](int) {
    const Fork fork(world.torch);
    DistributedDataParallel ddp(fork);
    const Tensor x = world.tensor({1}, {1});
    const Tensor y = ddp(x, false);
    y.backward();
    (fork->a * x).backward();
  }),
             Says("KB-A016", "Expected to mark a variable ready only once.",
                  "Parameter at index 0 with name a has been marked as ready twice."));
}

}  // namespace
}  // namespace kernbench::test::ddp_test
