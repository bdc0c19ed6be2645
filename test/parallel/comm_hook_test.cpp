#include "runtime/parallel/comm_hook.h"

#include "test/parallel/data_parallel_world.h"

namespace kernbench::test::comm_hook_test {
namespace {

using distributed::ProcessGroup;
using nn::parallel::DistributedDataParallel;
using nn::parallel::Future;
using nn::parallel::GradBucket;

using Hook = Future (*)(const ProcessGroup&, GradBucket&);

// The gradients of a Linear whose rank r has x = (r + 1) (1, 3), after three passes.
Floats gradients(DataParallelWorld& world, int rank, Hook hook) {
  const nn::Linear linear(world.torch, 2, 2, kOnOnePe);
  DistributedDataParallel ddp(linear, {.bucket_cap_mb = 0});
  if (hook != nullptr) ddp->register_comm_hook(ProcessGroup(), hook);
  const auto r = static_cast<float>(rank + 1);
  for (int i = 0; i < 3; ++i) {
    ddp->zero_grad();
    ddp(world.tensor({r, 3 * r}, {1, 2})).sum().backward();
  }
  return linear->weight.grad().to_vector();
}

TEST_CASE("the hooks of torch leave the mean, rounded to what they send", "[ddp]") {
  const bool blocks = GENERATE(true, false);
  DataParallelWorld world(3, "ahbm", {.launch_blocking = blocks});
  world.spawn([&](int rank) {
    CHECK(gradients(world, rank, nullptr) == Floats{2, 6, 2, 6});
    CHECK(gradients(world, rank, nn::parallel::allreduce_hook) == Floats{2, 6, 2, 6});
    // A third in f16 is 0.333251953125, and so on; f16 has 11 bits.
    const Floats f16 = gradients(world, rank, nn::parallel::fp16_compress_hook);
    CHECK(f16[0] == Approx(2).epsilon(1e-3));
    CHECK(f16[1] == Approx(6).epsilon(1e-3));
    const Floats bf16 = gradients(world, rank, nn::parallel::bf16_compress_hook);
    CHECK(bf16[1] == Approx(6).epsilon(8e-3));
  });
}

TEST_CASE("a hook of one's own gets buckets in their order, and sees its state", "[ddp]") {
  DataParallelWorld world(2);
  world.spawn([&](int) {
    std::vector<std::string> seen;
    DistributedDataParallel ddp(nn::Linear(world.torch, 2, 1, kOnOnePe), {.bucket_cap_mb = 0});
    ddp->register_comm_hook(&seen, [](std::vector<std::string>* all, GradBucket& bucket) {
      all->push_back(fmt::format("{}{} of {}", bucket.index(), bucket.is_last() ? " last" : "",
                                 bucket.parameters().size()));
      CHECK(bucket.gradients().front().defined());
      auto work = bucket.torch().distributed.all_reduce(bucket.buffer(), {.async_op = true});
      return Future(work, bucket.buffer()).then([](const Tensor& sum) { return sum * 10; });
    });
    const Tensor x = world.tensor({1, 2}, {1, 2});
    ddp(x).sum().backward();
    CHECK(ddp->module->weight.grad().to_vector() == Floats{20, 40});
    CHECK(seen == std::vector<std::string>{"0 last of 2"});
  });
}

TEST_CASE("a second hook is refused in torch's words", "[ddp]") {
  DataParallelWorld world(2);
  CHECK_THAT(world.refusal([&](int) {
    DistributedDataParallel ddp(nn::Linear(world.torch, 2, 1, kOnOnePe));
    for (int i = 0; i < 2; ++i) {
      ddp->register_comm_hook(ProcessGroup(), nn::parallel::allreduce_hook);
    }
  }),
             Says("KB-A015",
                  "register_comm_hook or register_builtin_comm_hook can only be called "
                  "once."));
}

}  // namespace
}  // namespace kernbench::test::comm_hook_test
