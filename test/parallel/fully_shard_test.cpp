// fully_shard (FSDP2): ranks that have a part of each parameter learn as one rank does.

#include "runtime/parallel/fully_shard.h"

#include "runtime/autograd/autograd.h"
#include "runtime/optim/optimizer.h"
#include "test/parallel/fsdp_learning.h"

namespace kernbench::test::fully_shard_test {
namespace {

using distributed::checkpoint::get_model_state_dict;
using distributed::checkpoint::set_model_state_dict;

TEST_CASE("shards learn as one rank over the whole batch does, bit for bit", "[fsdp]") {
  const int ranks = GENERATE(1, 2, 4, 8);
  const char* const backend = GENERATE("local", "ahbm");
  const bool blocks = GENERATE(true, false);
  const std::int64_t width = GENERATE(8, 5);  // of 5 rows the last of 4 ranks has none
  CAPTURE(ranks, backend, blocks, width);
  const FsdpLearned alone = learn({.width = width});
  CHECK(alone.losses[0] != alone.losses[1]);
  const FsdpLearned learned =
      learn({.ranks = ranks, .width = width, .backend = backend, .blocks = blocks});
  CHECK(learned.losses == alone.losses);
  CHECK(learned.weights == alone.weights);
  for (std::size_t i = 0; i < 2; ++i) CHECK(learned.norms[i] == Approx(alone.norms[i]));
}

TEST_CASE("so do those that keep parameters, replicas of shards, and several passes", "[fsdp]") {
  const bool blocks = GENERATE(true, false);
  FsdpLearned alone = learn({});
  FsdpSetting setting{.ranks = 4, .blocks = blocks};
  SECTION("reshard_after_forward = false") {
    setting.options.reshard_after_forward = false;
  }
  SECTION("reshard_after_forward = 2") {
    setting.options.reshard_after_forward = 2;
  }
  SECTION("reshard_after_forward = 2 of HSDP, in two passes") {
    setting = {.ranks = 8, .width = 5, .blocks = blocks, .replicas = 2, .microbatches = 2};
    setting.options.reshard_after_forward = 2;
  }
  SECTION("HSDP of 2 x 2") {
    setting.replicas = 2;
  }
  SECTION("HSDP of 4 x 1") {
    setting.replicas = 4;
  }
  SECTION("two passes without gradients' sync before") {
    setting.microbatches = 2;
  }
  SECTION("two passes of HSDP") {
    setting.replicas = 2;
    setting.microbatches = 2;
  }
  CAPTURE(blocks);
  const FsdpLearned learned = learn(setting);
  if (setting.width != 8) alone = learn({.width = setting.width});
  CHECK(learned.losses == alone.losses);
  CHECK(learned.weights == alone.weights);
}

TEST_CASE("parameters are this rank's rows, the last ranks' fewer", "[fsdp]") {
  DataParallelWorld world(4);
  world.spawn([&](int rank) {
    const nn::Linear linear(world.torch, 3, 5, kOnOnePe);
    fill_parameters(world.torch, *linear);
    const Floats all = linear->weight.to_vector();
    fully_shard(linear);
    const std::vector<std::int64_t> rows{2, 2, 1, 0};
    const Tensor shard = linear->parameters().front();
    CHECK(shard.shape() == Shape{rows[static_cast<std::size_t>(rank)], 3});
    CHECK(shard.name() == linear->weight.name());
    const auto first = all.begin() + std::min(rank * 6, 15);
    CHECK(shard.to_vector() == Floats(first, first + shard.numel()));
    CHECK(linear->named_parameters().keys() == std::vector<std::string>{"weight", "bias"});
  });
}

TEST_CASE("whole states are gathered and loaded, and shards are", "[fsdp]") {
  DataParallelWorld world(4);
  world.spawn([&](int) {
    const nn::Sequential model = two_layers(world.torch, 5);
    const Floats before = whole_parameters(*model);
    shard_layers(model);
    CHECK(whole_parameters(*model) == before);
    nn::StateDict shards;
    for (const auto& item : get_model_state_dict(*model)) {
      shards.insert(item.key(), item.value().clone());
    }
    const nn::StateDict whole = get_model_state_dict(*model, {.full_state_dict = true});
    CHECK(whole["0.weight"].shape() == Shape{5, kBatchColumns});
    for (const Tensor& parameter : model->parameters()) {
      if (parameter.numel() > 0) parameter.detach().zero_();
    }
    set_model_state_dict(*model, whole, {.full_state_dict = true});
    CHECK(whole_parameters(*model) == before);
    for (const Tensor& parameter : model->parameters()) {
      if (parameter.numel() > 0) parameter.detach().zero_();
    }
    CHECK(whole_parameters(*model) == Floats(before.size(), 0));
    model->load_state_dict(shards);
    CHECK(whole_parameters(*model) == before);
  });
}

TEST_CASE("parameters and outputs have the types of a mixed precision policy", "[fsdp]") {
  const DType reduce = GENERATE(DType::f32, DType::bf16, DType::f16);
  DataParallelWorld world(2);
  world.spawn([&](int rank) {
    const nn::Linear linear(world.torch, 2, 4, kOnOnePe);
    fill_parameters(world.torch, *linear);
    fully_shard(linear, {.mp_policy = {.param_dtype = DType::bf16,
                                       .reduce_dtype = reduce,
                                       .output_dtype = DType::f32}});
    CHECK(linear->weight.dtype() == DType::bf16);
    const Tensor shard = linear->parameters().front();
    CHECK(shard.dtype() == DType::f32);
    const Tensor x = world.tensor({1.0F + static_cast<float>(rank), 2}, {1, 2});
    const Tensor y = linear(x);
    CHECK(y.dtype() == DType::f32);
    y.sum().backward();
    CHECK(shard.grad().dtype() == DType::f32);
    CHECK(shard.grad().to_vector() == Floats{1.5, 2, 1.5, 2});
  });
}

// As torch's _cast_fp_tensor.  bf16 has no odd ids above 256.
TEST_CASE("a mixed precision policy leaves integers as they are", "[fsdp]") {
  struct RowsImpl : nn::Module {
    explicit RowsImpl(const RuntimeContext& torch)
        : table(register_module("table", nn::Embedding(torch, 300, 1, kOnOnePe))) {}
    Tensor forward(const Tensor& ids) const {
      CHECK(table(ids).to_vector() == Floats{-8.0F / 32, -1.0F / 32});
      return ids;
    }
    nn::Embedding table;
  };
  DataParallelWorld world(2);
  world.spawn([&](int) {
    const nn::ModuleHolder<RowsImpl> rows(world.torch);
    fill_parameters(world.torch, *rows);
    fully_shard(rows, {.mp_policy = {.param_dtype = DType::bf16, .output_dtype = DType::f32}});
    const std::vector<std::int64_t> ids{257, 258};
    const NoGradGuard no_grad(world.torch);
    CHECK(rows(world.torch.tensor(ids, {2}, kOnOnePe)).dtype() == DType::i64);
  });
}

TEST_CASE("modules that are called one after the other can share a group", "[fsdp]") {
  DataParallelWorld world(2);
  std::vector<Floats> weights(2);
  for (const bool share : {false, true}) {
    world.spawn([&](int rank) {
      const nn::Sequential model = two_layers(world.torch, 8);
      const auto inner = model->children();
      if (share) fully_shard({inner.front(), inner.back()});
      const FSDPModule fsdp = share ? fully_shard(model) : shard_layers(model);
      const Tensor x = world.tensor(batch_rows(8 * rank, 8, 1), {8, kBatchColumns});
      optim::SGD optimizer(model->parameters(), 0.25);
      model(x).sum().backward();
      optimizer.step();
      const Floats own = whole_parameters(*model);
      if (rank == 0) weights[share ? 1 : 0] = own;
      if (!share) return;
      const nn::parallel::StepTimes step = fsdp.last_step();
      REQUIRE(step.buckets.size() == 3);
      CHECK(step.buckets[0].collective == "all_gather");
      CHECK(step.buckets[1].collective == "all_gather");
      CHECK(step.buckets[2].collective == "reduce_scatter");
      CHECK(step.buckets[2].parameters ==
            std::vector<std::string>{"0.weight", "0.bias", "2.weight", "2.bias"});
      CHECK(step.compute_only + step.both + step.exposed + step.idle == step.end - step.begin);
    });
  }
  CHECK(weights[0] == weights[1]);
}

// Whole gradients of a model's parameters, from all ranks' shards.
Floats whole_gradients(DataParallelWorld& world, const nn::Module& model) {
  const NoGradGuard no_grad(world.torch);
  for (Tensor parameter : model.parameters()) parameter.copy_(parameter.grad());
  return whole_parameters(model);
}

TEST_CASE("a module that is called twice, or again by a checkpoint, has the same gradients",
          "[fsdp]") {
  const bool blocks = GENERATE(true, false);
  const bool checkpoints = GENERATE(true, false);
  const auto gradients = [&](bool shards) {
    DataParallelWorld world(2, "ahbm", {.launch_blocking = blocks});
    Floats all;
    world.spawn([&](int) {
      const nn::Linear linear(world.torch, 4, 4, kOnOnePe);
      const nn::Sequential model(linear, nn::ReLU(), linear);
      fill_parameters(world.torch, *model);
      if (shards) {
        fully_shard(linear);
        fully_shard(model);
      }
      Tensor x = world.tensor(batch_rows(0, 4, 1), {4, kBatchColumns});
      x.requires_grad_();
      if (checkpoints) {
        const auto call = [&](const std::vector<Tensor>& inputs) { return model(inputs.front()); };
        nn::utils::checkpoint(call, {x}).sum().backward();
      } else {
        model(x).sum().backward();
      }
      all = whole_gradients(world, *model);
    });
    return all;
  };
  CHECK(gradients(true) == gradients(false));
}

TEST_CASE("gradients of f16 are divided before and after their sum", "[fsdp]") {
  DataParallelWorld world(8);
  world.spawn([&](int) {
    const TensorOptions f16{.dtype = DType::f16, .dp = DPPolicy::on_one_pe()};
    const nn::Linear linear(world.torch, nn::LinearOptions(1, 1).bias(false), f16);
    fully_shard(linear);
    linear(world.torch.full({1, 1}, 16384, f16)).sum().backward();  // 8 of them are infinite
    const Floats gradient = linear->parameters().front().grad().to_vector();
    if (!gradient.empty()) CHECK(gradient == Floats{16384});
  });
}

TEST_CASE("replicas add up what they have reduced when they are told to", "[fsdp]") {
  const bool blocks = GENERATE(true, false);
  DataParallelWorld world(4, "ahbm", {.launch_blocking = blocks});
  world.spawn([&](int rank) {
    const auto mesh =
        world.torch.distributed.init_device_mesh("ahbm", {2, 2}, {"replicate", "shard"});
    const nn::Linear linear(world.torch, nn::LinearOptions(1, 2).bias(false), kOnOnePe);
    const FSDPModule fsdp = fully_shard(linear, {.mesh = mesh});
    const Tensor x = world.tensor({static_cast<float>(rank)}, {1, 1});
    fsdp.set_requires_all_reduce(false);
    linear(x).sum().backward();
    CHECK_FALSE(linear->parameters().front().grad().defined());
    fsdp.set_requires_all_reduce(true);
    linear(x).sum().backward();
    CHECK(linear->parameters().front().grad().to_vector() == Floats{3});  // twice the mean
  });
}

TEST_CASE("ignored parameters stay whole, and frozen ones get no gradient", "[fsdp]") {
  DataParallelWorld world(2);
  world.spawn([&](int) {
    const nn::Sequential model = two_layers(world.torch, 8);
    const Tensor ignored = model->parameters().front();
    Tensor frozen = model->parameters().back();
    frozen.requires_grad_(false);
    fully_shard(model, {.ignored_params = {ignored}});
    CHECK(model->parameters().front().storage() == ignored.storage());
    const Tensor x = world.tensor(batch_rows(0, 4, 1), {4, kBatchColumns});
    model(x).sum().backward();
    CHECK(ignored.grad().shape() == ignored.shape());
    CHECK_FALSE(model->parameters().back().grad().defined());
    CHECK(model->parameters()[1].grad().shape() == Shape{4});
  });
}

TEST_CASE("a root that keeps its parameters sees what is loaded", "[fsdp]") {
  DataParallelWorld world(2);
  world.spawn([&](int) {
    const nn::Linear linear(world.torch, 2, 4, kOnOnePe);
    fill_parameters(world.torch, *linear);
    fully_shard(linear);
    const Tensor x = world.tensor({1, 2}, {1, 2});
    const NoGradGuard no_grad(world.torch);
    const Floats before = linear(x).to_vector();
    CHECK(linear(x).to_vector() == before);
    for (const Tensor& parameter : linear->parameters()) parameter.mul_(2);
    const Floats after = linear(x).to_vector();
    for (std::size_t i = 0; i < 4; ++i) CHECK(after[i] == 2 * before[i]);
  });
}

// Holders of rows have summands of a weight's gradient.
TEST_CASE("gradients that lie as summands on the PEs of a device are reduced", "[fsdp]") {
  const char* const backend = GENERATE("local", "ahbm");
  const bool has_bias = GENERATE(true, false);  // whose gradient is a summand too
  DataParallelWorld world(2, backend, {}, 2);
  world.spawn([&](int rank) {
    const DPPolicy copies{.num_cubes = 2, .num_pes = 1};
    const DPPolicy rows{.cube = Shard::row_wise, .num_cubes = 2, .num_pes = 1};
    const nn::Linear linear(world.torch, nn::LinearOptions(2, 4).bias(has_bias), {.dp = copies});
    fill_parameters(world.torch, *linear);
    fully_shard(linear);
    const auto own = static_cast<float>(rank);
    const Tensor x = world.tensor({1 + own, 2, 3, 4 + own}, {2, 2}, rows);
    const Tensor y = linear(x);
    y.backward(world.torch.ones_like(y));
    CHECK(linear->parameters().front().grad().to_vector() == Floats{4.5, 6.5, 4.5, 6.5});
  });
}

TEST_CASE("a module's parameters are there after unshard(), until reshard()", "[fsdp]") {
  DataParallelWorld world(2);
  world.spawn([&](int) {
    const nn::Linear linear(world.torch, 2, 4, kOnOnePe);
    fill_parameters(world.torch, *linear);
    const Floats before = linear->weight.to_vector();
    const FSDPModule fsdp = fully_shard(linear);
    const auto handle = fsdp.unshard({.async_op = true});
    handle.wait();
    CHECK(linear->weight.to_vector() == before);
    fsdp.reshard();
    const std::string text = error_of<CollectiveError>([&] { linear->weight.to_vector(); });
    CHECK_THAT(text, Catch::StartsWith("[KB-A019] to_vector: tensor '"));
    CHECK_THAT(text, Catch::Contains("[4, 2] is sharded: fully_shard has freed its elements"));
  });
}

}  // namespace
}  // namespace kernbench::test::fully_shard_test
