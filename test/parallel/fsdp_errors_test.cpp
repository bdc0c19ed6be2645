// Tests what fully_shard refuses, in torch's words where torch has them.

#include <fmt/format.h>

#include "runtime/optim/optimizer.h"
#include "test/parallel/fsdp_world.h"

namespace kernbench::test::fsdp_errors_test {
namespace {

using Catch::Contains;

TEST_CASE("a module is sharded once, from the inside out", "[fsdp]") {
  DataParallelWorld world(2);
  CHECK_THAT(world.refusal([&](int) {
    const nn::Sequential model = two_layers(world.torch, 8);
    fully_shard(model);
    fully_shard(model);
  }),
             Contains("[KB-A020] Each distinct composable distributed API can only be applied to a "
                      "module once. The following APIs have already been applied to the following "
                      "module: ['fully_shard']"));
  DataParallelWorld other(2);
  CHECK_THAT(other.refusal([&](int) {
    const nn::Sequential model = two_layers(other.torch, 8);
    fully_shard(model);
    fully_shard(*model->children().front());
  }),
             Contains("[KB-A020] Parameter 'weight' is shared with a parameter already managed by "
                      "another FSDP group"));
}

TEST_CASE("meshes have one dimension, or two with names", "[fsdp]") {
  DataParallelWorld world(8);
  CHECK_THAT(world.refusal([&](int) {
    const auto mesh = world.torch.distributed.init_device_mesh("ahbm", {2, 2, 2});
    fully_shard(two_layers(world.torch, 8), {.mesh = mesh});
  }),
             Contains("[KB-A020] fully_shard expects a 1D or 2D DeviceMesh but got one of 3 "
                      "dimensions"));
  DataParallelWorld other(4);
  CHECK_THAT(other.refusal([&](int) {
    const auto mesh = other.torch.distributed.init_device_mesh("ahbm", {2, 2});
    fully_shard(two_layers(other.torch, 8), {.mesh = mesh});
  }),
             Contains("Please init the 2D mesh for HSDP with mesh_dim_names specified"));
}

TEST_CASE("ranks whose modules differ are told what differs", "[fsdp]") {
  DataParallelWorld world(2);
  CHECK_THAT(world.refusal([&](int rank) { fully_shard(two_layers(world.torch, 8 + rank)); }),
             Contains("rank 1 has '0.weight' [9, 4] f32 as number 0, and rank 0 has '0.weight' "
                      "[8, 4] f32"));
}

TEST_CASE("what cannot be sharded is named", "[fsdp]") {
  struct ScalarImpl : nn::Module {
    explicit ScalarImpl(const RuntimeContext& torch)
        : scale(register_parameter("scale", torch.ones({}, kOnOnePe))) {}
    Tensor forward(const Tensor& x) const { return x * scale; }
    Tensor scale;
  };
  DataParallelWorld world(2);
  CHECK_THAT(world.refusal([&](int) { fully_shard(nn::ModuleHolder<ScalarImpl>(world.torch)); }),
             Contains("fully_shard doesn't support scalar parameters. Change scale to a 1D tensor "
                      "with numel equal to 1."));
  DataParallelWorld other(2);
  CHECK_THAT(other.refusal([&](int) {
    fully_shard(two_layers(other.torch, 8),
                {.offload_policy = distributed::fsdp::CPUOffloadPolicy()});
  }),
             Contains("offload_policy: the host has no simulated memory"));
}

TEST_CASE("a module that is sharded in part does not move, nor does the rest of it", "[fsdp]") {
  DataParallelWorld world(2);
  world.spawn([&](int rank) {
    const nn::Linear whole(world.torch, 4, 4, kOnOnePe);
    const nn::Linear sharded(world.torch, 4, 4, kOnOnePe);
    const nn::Sequential model(whole, sharded);
    fully_shard(sharded);
    CHECK_THROWS_WITH(model->to(Device(fmt::format("ahbm:{}", 1 - rank))), Contains("[KB-M024]"));
    CHECK(whole->weight.device() == rank);
  });
}

TEST_CASE("a number of ranks that keep parameters divides the group's", "[fsdp]") {
  const int count = GENERATE(3, 0, 8);
  DataParallelWorld world(4);
  CHECK_THAT(world.refusal([&](int) {
    fully_shard(two_layers(world.torch, 8), {.reshard_after_forward = count});
  }),
             Contains(fmt::format("[KB-A020] If passing reshard_after_forward as an int, it should "
                                  "be a factor of 4, not {} (rank 0)",
                                  count)));
}

// Returns two tensors.
struct PairImpl : nn::Module {
  explicit PairImpl(const RuntimeContext& torch)
      : layer(register_module("layer", nn::Linear(torch, 4, 4, kOnOnePe))) {}
  std::pair<Tensor, Tensor> forward(const Tensor& x) const { return {layer(x), x}; }
  nn::Linear layer;
};

TEST_CASE("a module that returns no tensor is refused, but not what is inside of it", "[fsdp]") {
  DataParallelWorld world(2);
  CHECK_THAT(world.refusal([&](int) {
    const nn::ModuleHolder<PairImpl> pair(world.torch);
    fully_shard(pair);
    pair(world.torch.zeros({1, 4}, kOnOnePe));
  }),
             Contains("[KB-A019] fully_shard: forward() of a module that it was called with "
                      "returns something else than a tensor"));
  DataParallelWorld other(2);
  other.spawn([&](int) {
    const nn::ModuleHolder<PairImpl> pair(other.torch);
    fully_shard(pair->layer);
    pair(other.torch.ones({1, 4}, kOnOnePe)).first.sum().backward();
    CHECK(pair->layer->parameters().front().grad().to_vector() == Floats(8, 1));
  });
}

TEST_CASE("an inner module that runs before the root is refused", "[fsdp]") {
  DataParallelWorld world(2);
  CHECK_THAT(world.refusal([&](int) {
    const nn::Linear inner(world.torch, 4, 4, kOnOnePe);
    const nn::Sequential model(inner, nn::ReLU());
    shard_layers(model);
    const Tensor x = world.torch.zeros({1, 4}, kOnOnePe);
    inner(x);
    model(x);
  }),
             Contains("[KB-A021] FSDP state has already been lazily initialized for 0\nFSDP "
                      "requires running forward through the root module first (rank 0)"));
}

TEST_CASE("modules of one group are not the root", "[fsdp]") {
  DataParallelWorld world(2);
  CHECK_THAT(world.refusal([&](int) {
    const nn::Sequential model = two_layers(world.torch, 8);
    fully_shard(model->children());
    model(world.torch.zeros({1, 4}, kOnOnePe));
  }),
             Contains("[KB-A021] FSDP requires a single root module but got 3 (rank 0)"));
}

TEST_CASE("a parameter that is used outside of its module's passes is refused", "[fsdp]") {
  DataParallelWorld world(2);
  CHECK_THAT(world.refusal([&](int) {
    const nn::Linear linear(world.torch, 4, 4, kOnOnePe);
    fully_shard(linear);
    linear->weight * 2;
  }),
             Contains("[KB-A019] scale: tensor 'weight' [4, 4] is sharded: fully_shard has freed"));
}

// Rank 1's shards of two ranks have as many rows as those of three, but other ones.
TEST_CASE("shards of another number of ranks are refused on all ranks", "[fsdp]") {
  struct RowsImpl : nn::Module {
    explicit RowsImpl(const RuntimeContext& torch)
        : a(register_parameter("a", torch.ones({5}, kOnOnePe))),
          b(register_parameter("b", torch.ones({7}, kOnOnePe))),
          c(register_parameter("c", torch.ones({3}, kOnOnePe))) {}
    Tensor forward(const Tensor& x) const { return x * a.sum() * b.sum() * c.sum(); }
    Tensor a, b, c;
  };
  KERNBENCH_MODULE(Rows);
  DataParallelWorld world(3);
  std::vector<std::string> texts(3);
  world.spawn([&](int rank) {
    const Rows rows(world.torch);
    fully_shard(rows);
    const std::vector<Shape> of_two =
        rank == 0 ? std::vector<Shape>{{3}, {4}, {2}} : std::vector<Shape>{{2}, {3}, {1}};
    nn::StateDict shards;
    for (std::size_t i = 0; i < of_two.size(); ++i) {
      shards.insert(rows->named_parameters().keys()[i],
                    RuntimeContext::tensor(Floats(static_cast<std::size_t>(of_two[i].numel()), 9),
                                           of_two[i]));
    }
    texts[static_cast<std::size_t>(rank)] = error_of<CollectiveError>(
        [&] { distributed::checkpoint::set_model_state_dict(*rows, shards); });
    CHECK(rows->parameters().front().to_vector() == Floats(rank == 2 ? 1 : 2, 1));
  });
  for (const std::string& text : texts) {
    CHECK_THAT(text, Contains("KB-A011") && Contains("size mismatch on rank 0: 'a' is [3]"));
  }
}

TEST_CASE("an optimizer that was made before its parameters were sharded does not step", "[fsdp]") {
  DataParallelWorld world(2);
  CHECK_THAT(
      world.refusal([&](int) {
        const nn::Sequential model = two_layers(world.torch, 8);
        optim::SGD optimizer(model->parameters(), 0.5);
        shard_layers(model);
        model(world.torch.ones({2, kBatchColumns}, kOnOnePe)).sum().backward();
        optimizer.step();
      }),
      Contains("[KB-A012] SGD.step: parameter 'weight' [8, 4] was sharded after the optimizer "
               "was made") &&
          Contains("call fully_shard() first"));
}

TEST_CASE("a rank that leaves out a module ends the run, and is named", "[fsdp]") {
  DataParallelWorld world(2);
  const std::string text = error_of<DeadlockError>([&] {
    world.spawn([&](int rank) {
      const nn::Sequential model = two_layers(world.torch, 8);
      shard_layers(model);
      if (rank == 0) model(world.torch.zeros({1, 4}, kOnOnePe));
    });
  });
  CHECK_THAT(text, Contains("[KB-C002] rank 1 finished without calling all_gather_into_tensor#"));
}

}  // namespace
}  // namespace kernbench::test::fsdp_errors_test
