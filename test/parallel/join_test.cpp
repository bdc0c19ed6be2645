// Ranks with different numbers of inputs, and gradients that are views of their buckets.

#include "runtime/tensor/tensor_storage.h"
#include "test/parallel/data_parallel_world.h"

namespace kernbench::test::join_test {
namespace {

using nn::parallel::DistributedDataParallel;
using nn::parallel::JoinOptions;

struct ScaleImpl : nn::Module {
  explicit ScaleImpl(const RuntimeContext& torch)
      : w(register_parameter("w", torch.ones({2}, kOnOnePe))),
        unused(register_parameter("unused", torch.ones({1}, kOnOnePe))) {}
  Tensor forward(const Tensor& x) const { return (w * x).sum(); }

  Tensor w, unused;
};
KERNBENCH_MODULE(Scale);

// The gradients of rank 1, which has four inputs where rank 0 has three.
Floats gradients_of_rank_1(const JoinOptions& options) {
  DataParallelWorld world(2);
  Floats gradients;
  world.spawn([&](int rank) {
    const nn::Linear linear(world.torch, nn::LinearOptions(1, 1).bias(false), kOnOnePe);
    DistributedDataParallel ddp(linear);
    const Tensor x = world.tensor({static_cast<float>(rank + 1)}, {1, 1});
    ddp->join(
        [&] {
          for (int i = 0; i < 3 + rank; ++i) {
            ddp->zero_grad();
            ddp(x).sum().backward();
            if (rank == 1) gradients.push_back(linear->weight.grad().item());
          }
        },
        options);
  });
  return gradients;
}

// The figures are those of torch 1.13.1.
TEST_CASE("a rank without inputs sends zeros until all have finished", "[ddp]") {
  CHECK(gradients_of_rank_1({}) == Floats{1.5F, 1.5F, 1.5F, 1});
  CHECK(gradients_of_rank_1({.divide_by_initial_world_size = false}) ==
        Floats{1.5F, 1.5F, 1.5F, 2});
}

TEST_CASE("at the end all ranks have the parameters of the one that went on longest", "[ddp]") {
  const int longest = GENERATE(0, 1, 2);
  DataParallelWorld world(3);
  world.spawn([&](int rank) {
    const Scale scale(world.torch);
    DistributedDataParallel ddp(scale, {.find_unused_parameters = true});
    ddp->join([&] {
      for (int i = 0; i < (rank == longest ? 5 : rank + 1); ++i) {
        ddp(world.tensor({1, 2}, {2})).backward();
      }
      scale->w.detach().fill_(10 + rank);
    });
    CHECK(scale->w.to_vector() == Floats(2, static_cast<float>(10 + longest)));
    CHECK_FALSE(scale->unused.grad().defined());
  });
}

TEST_CASE("ranks may be told at once that one of them has no inputs", "[ddp]") {
  DataParallelWorld world(2);
  CHECK_THAT(world.refusal([&](int rank) {
    DistributedDataParallel ddp(nn::Linear(world.torch, 1, 1, kOnOnePe));
    ddp->join(
        [&] {
          for (int i = 0; i < 2 - rank; ++i) {
            ddp(world.tensor({1}, {1, 1})).sum().backward();
          }
        },
        {.throw_on_early_termination = true});
  }),
             Says("KB-A016",
                  "Detected at least one rank that exhausted inputs. Throwing across "
                  "all ranks."));
}

TEST_CASE("uneven inputs without join end with who is missing", "[ddp]") {
  DataParallelWorld world(2);
  const std::string text = error_of<DeadlockError>([&] {
    world.spawn([&](int rank) {
      DistributedDataParallel ddp(nn::Linear(world.torch, 1, 1, kOnOnePe));
      for (int i = 0; i < 2 + rank; ++i) ddp(world.tensor({1}, {1, 1})).sum().backward();
    });
  });
  CHECK_THAT(text, Catch::Contains("rank 0") && Catch::Contains("all_reduce"));
}

TEST_CASE("gradients as views of their buckets need no copies back", "[ddp]") {
  DataParallelWorld world(2);
  world.spawn([&](int rank) {
    const nn::Linear linear(world.torch, 2, 1, kOnOnePe);
    DistributedDataParallel ddp(linear, {.gradient_as_bucket_view = true});
    const auto r = static_cast<float>(rank + 1);
    const Tensor x = world.tensor({r, 2 * r}, {1, 2});
    for (int i = 0; i < 3; ++i) {
      ddp->zero_grad();
      ddp(x).sum().backward();
      CHECK(linear->weight.grad().to_vector() == Floats{1.5F, 3});
      CHECK(linear->weight.grad().storage()->memory == linear->bias.grad().storage()->memory);
    }
    ddp(x).sum().backward();  // adds to what is there
    CHECK(linear->weight.grad().to_vector() == Floats{3, 6});
    ddp->register_comm_hook(distributed::ProcessGroup(), nn::parallel::bf16_compress_hook);
    ddp->zero_grad(false);
    ddp(x).sum().backward();
    CHECK(linear->weight.grad().to_vector() == Floats{1.5F, 3});
  });
}

TEST_CASE("a gradient that is no view of its bucket is refused in torch's words", "[ddp]") {
  DataParallelWorld world(2);
  CHECK_THAT(world.refusal([&](int) {
    const nn::Linear linear(world.torch, 2, 1, kOnOnePe);
    DistributedDataParallel ddp(linear, {.gradient_as_bucket_view = true});
    ddp->register_comm_hook(distributed::ProcessGroup(), [&](const distributed::ProcessGroup& group,
                                                             nn::parallel::GradBucket& bucket) {
      Tensor(linear->weight).mutable_grad() = world.torch.zeros_like(linear->weight.detach());
      return nn::parallel::allreduce_hook(group, bucket);
    });
    ddp(world.tensor({1, 2}, {1, 2})).sum().backward();
  }),
             Says("KB-A016",
                  "Detected at least one parameter gradient is not the expected DDP "
                  "bucket view with gradient_as_bucket_view=True.",
                  "'weight'"));
}

}  // namespace
}  // namespace kernbench::test::join_test
