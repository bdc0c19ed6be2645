// Tests post-local SGD, averages of models, optimizers in hooks and ignored parameters, as in torch
// 1.13.1 (its tests post_localSGD, periodic_model_averager, hook_with_optimizer,
// ignore_params_arg).

#include "runtime/optim/optimizer.h"
#include "test/parallel/data_parallel_world.h"

namespace kernbench::test::post_local_sgd_test {
namespace {

using distributed::ProcessGroup;
using nn::parallel::DistributedDataParallel;
using nn::parallel::PeriodicModelAverager;
using nn::parallel::PostLocalSGDOptimizer;
using nn::parallel::PostLocalSGDState;

// y = w x; the gradient of w is rank + 1 where x is.
struct ScaleImpl : nn::Module {
  explicit ScaleImpl(const RuntimeContext& torch)
      : w(register_parameter("w", torch.ones({1}, kOnOnePe))) {}
  Tensor forward(const Tensor& x) const { return w * x; }
  Tensor w;
};
KERNBENCH_MODULE(Scale);

TEST_CASE("gradients are averaged over all ranks at first, then over a subgroup or not at all",
          "[ddp]") {
  DataParallelWorld world(4);
  const bool reduces = GENERATE(true, false);
  world.spawn([&](int rank) {
    const Scale scale(world.torch);
    DistributedDataParallel ddp(scale);
    const auto pair = world.torch.distributed.new_subgroups(2).first;
    const auto state = std::make_shared<PostLocalSGDState>(ProcessGroup(), pair, 2, reduces);
    ddp->register_comm_hook(state, nn::parallel::post_localSGD_hook);
    Floats gradients;
    for (int i = 0; i < 4; ++i) {
      ddp->zero_grad();
      ddp(world.tensor({static_cast<float>(rank + 1)}, {1})).backward();
      gradients.push_back(scale->w.grad().item());
    }
    const float late = reduces ? (rank < 2 ? 1.5F : 3.5F) : static_cast<float>(rank + 1);
    CHECK(gradients == Floats{2.5F, 2.5F, late, late});
    CHECK(state->iter == 2);
  });
}

TEST_CASE("parameters with a gradient are averaged in each period after the warm-up", "[ddp]") {
  DataParallelWorld world(2);
  world.spawn([&](int rank) {
    const nn::Linear linear(world.torch, 1, 1, kOnOnePe);
    PeriodicModelAverager averager(2, 1);
    Floats seen;
    for (int i = 0; i < 5; ++i) {
      nn::init::constant_(linear->weight, 2 * rank);
      nn::init::constant_(linear->bias, 2 * rank);
      Tensor(linear->weight).mutable_grad() = world.torch.ones({1, 1}, kOnOnePe);
      averager.average_parameters(linear->parameters());
      seen.push_back(linear->weight.item());
      CHECK(linear->bias.item() == static_cast<float>(2 * rank));
    }
    const auto own = static_cast<float>(2 * rank);
    CHECK(seen == Floats{own, 1, own, 1, own});
    CHECK(averager.step == 5);
  });
}

TEST_CASE("an averager refuses what torch does", "[ddp]") {
  CHECK_THAT(error_of<CollectiveError>([] { PeriodicModelAverager(0); }),
             Says("KB-A015", "Arg ``period`` must be a positive value."));
  CHECK_THAT(error_of<CollectiveError>([] { PeriodicModelAverager(2, -1); }),
             Says("KB-A015", "Arg ``warmup_steps`` must be a non-negative number."));
}

TEST_CASE("the optimizer of post-local SGD keeps its averager's step", "[ddp]") {
  DataParallelWorld world(2);
  world.spawn([&](int rank) {
    const Scale scale(world.torch);
    optim::SGD sgd(scale->parameters(), 1);
    PostLocalSGDOptimizer optimizer(sgd, PeriodicModelAverager(2, 1));
    for (int i = 0; i < 3; ++i) {
      optimizer.zero_grad();
      scale(world.tensor({static_cast<float>(rank + 1)}, {1})).backward();
      optimizer.step();
    }
    // 1 - 1 - 1 and 1 - 2 - 2 are averaged after the second step.
    CHECK(scale->w.item() == -2 - static_cast<float>(rank + 1));
    const auto state = optimizer.state_dict();
    CHECK(state.numbers["step"] == 3);
    PostLocalSGDOptimizer other(sgd, PeriodicModelAverager(2, 1));
    other.load_state_dict(state);
    CHECK(other.averager.step == 3);
    other.load_state_dict(sgd.state_dict());
    CHECK(other.averager.step == 0);
  });
}

TEST_CASE("an optimizer in the hook updates as one after backward() does", "[ddp]") {
  DataParallelWorld world(2);
  const bool views = GENERATE(false, true);
  const auto make = [](std::vector<Tensor> parameters) {
    return std::make_unique<optim::AdamW>(std::move(parameters), optim::AdamWOptions(0.125));
  };
  world.spawn([&](int rank) {
    const auto train = [&](bool in_hook) {
      const nn::Sequential model = two_layers(world.torch, 3);
      DistributedDataParallel ddp(model, {.bucket_cap_mb = 0, .gradient_as_bucket_view = views});
      const auto optimizer = make(ddp->parameters());
      if (in_hook) ddp->_register_fused_optim(make);
      for (int i = 0; i < 3; ++i) {
        optimizer->zero_grad();
        const Tensor x = world.tensor(batch_rows(4 * rank, 4, i), {4, kBatchColumns});
        square(ddp(x)).sum().backward();
        if (!in_hook) optimizer->step();
      }
      Floats all;
      for (const Tensor& parameter : model->parameters()) {
        for (const float element : parameter.to_vector()) all.push_back(element);
      }
      return all;
    };
    CHECK(train(true) == train(false));
  });
}

TEST_CASE("parameters that the hook's optimizer was not given stay as they are", "[ddp]") {
  DataParallelWorld world(2);
  world.spawn([&](int rank) {
    const nn::Linear linear(world.torch, 1, 1, kOnOnePe);
    fill_parameters(world.torch, *linear);
    const float bias = linear->bias.item();
    const float weight = linear->weight.item();
    DistributedDataParallel ddp(linear);
    ddp->_register_fused_optim(
        [](std::vector<Tensor> parameters) {
          return std::make_unique<optim::SGD>(std::move(parameters), 1);
        },
        {linear->weight});
    ddp(world.tensor({static_cast<float>(rank)}, {1, 1})).backward();
    CHECK(linear->weight.item() == weight - 0.5F);
    CHECK(linear->bias.item() == bias);
    CHECK(linear->bias.grad().item() == 1);
  });
}

TEST_CASE("ignored parameters and buffers stay with their ranks", "[ddp]") {
  struct NetImpl : nn::Module {
    NetImpl(const RuntimeContext& torch, int rank)
        : a(register_parameter("a", torch.full({1}, rank, kOnOnePe))),
          b(register_parameter("b", torch.full({1 + rank}, rank, kOnOnePe))),
          c(register_buffer("c", torch.full({1}, rank, kOnOnePe))) {}
    Tensor forward(const Tensor& x) const { return a * x + b.sum() * x + c; }
    Tensor a, b, c;
  };
  KERNBENCH_MODULE(Net);
  DataParallelWorld world(2);
  world.spawn([&](int rank) {
    const Net net(world.torch, rank);
    nn::parallel::_set_params_and_buffers_to_ignore_for_model(net, {"b", "c"});
    DistributedDataParallel ddp(net);
    for (int i = 0; i < 2; ++i) {
      ddp->zero_grad();
      ddp(world.tensor({static_cast<float>(rank + 1)}, {1})).backward();
      CHECK(net->a.grad().item() == 1.5F);
      CHECK(net->b.grad().to_vector() ==
            Floats(static_cast<std::size_t>(rank) + 1, static_cast<float>(rank + 1)));
    }
    CHECK(net->a.item() == 0);
    CHECK(net->c.item() == static_cast<float>(rank));
  });
  CHECK_THAT(world.refusal([&](int) {
    nn::parallel::_set_params_and_buffers_to_ignore_for_model(Scale(world.torch), {"v"});
  }),
             Says("KB-A015", "no parameter or buffer 'v'"));
}

}  // namespace
}  // namespace kernbench::test::post_local_sgd_test
