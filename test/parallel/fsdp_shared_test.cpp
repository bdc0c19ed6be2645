// Tests fully_shard of parameters whose rows the PEs of each rank share.

#include "runtime/simulation/run_log.h"
#include "runtime/simulation/simulation.h"
#include "runtime/torch/internals.h"
#include "test/parallel/fsdp_learning.h"

namespace kernbench::test::fsdp_shared_test {
namespace {

using Catch::Contains;
using runtime::RunSpan;

constexpr UsedPes kFourPes{2, 2};

TEST_CASE("ranks whose PEs share parameters learn as one PE over the whole batch, bit for bit",
          "[fsdp][shared]") {
  const int ranks = GENERATE(1, 2, 4, 8);
  const UsedPes on = GENERATE(UsedPes{1, 2}, UsedPes{2, 1}, UsedPes{2, 2});
  const bool blocks = GENERATE(true, false);
  const std::int64_t width = GENERATE(8, 5, 19);  // of 5 rows the last of 4 ranks has none
  CAPTURE(ranks, on.cubes, on.pes, blocks, width);
  const FsdpLearned alone = learn({.width = width});
  CHECK(alone.losses[0] != alone.losses[1]);
  const FsdpLearned learned = learn({.ranks = ranks, .width = width, .blocks = blocks, .on = on});
  CHECK(learned.losses == alone.losses);
  CHECK(learned.weights == alone.weights);
  for (std::size_t i = 0; i < 2; ++i) CHECK(learned.norms[i] == Approx(alone.norms[i]));
}

TEST_CASE("so do they with each policy of keeping parameters, replicas and several passes",
          "[fsdp][shared]") {
  FsdpSetting setting{.ranks = 4, .width = 19, .blocks = GENERATE(true, false), .on = kFourPes};
  const FsdpLearned alone = learn({.width = 19});
  SECTION("reshard_after_forward = false") {
    setting.options.reshard_after_forward = false;
  }
  SECTION("reshard_after_forward = 2") {
    setting.options.reshard_after_forward = 2;
  }
  SECTION("HSDP of 2 x 2, in two passes") {
    setting.replicas = 2;
    setting.microbatches = 2;
  }
  SECTION("HSDP of 4 x 1") {
    setting.replicas = 4;
  }
  SECTION("HSDP of 2 x 4 that keeps parts") {
    setting.ranks = 8;
    setting.replicas = 2;
    setting.options.reshard_after_forward = 2;
  }
  SECTION("backend local") {
    setting.backend = "local";
  }
  const FsdpLearned learned = learn(setting);
  CHECK(learned.losses == alone.losses);
  CHECK(learned.weights == alone.weights);
}

// A mean of 5 rows is rounded, so sums in another order differ.
TEST_CASE("3 ranks whose PEs share parameters learn as 3 ranks of a PE, but for rounding",
          "[fsdp][shared]") {
  const std::int64_t width = GENERATE(8, 19);
  FsdpSetting setting{.ranks = 3, .width = width, .steps = 1};
  const FsdpLearned alone = learn(setting);
  setting.on = kFourPes;
  const FsdpLearned learned = learn(setting);
  CHECK(learned.weights.size() == alone.weights.size());
  for (std::size_t i = 0; i < alone.weights.size(); ++i) {
    CHECK(learned.weights[i] == Approx(alone.weights[i]).epsilon(1e-6).margin(1e-6));
  }
  CHECK(learned.losses[0] == Approx(alone.losses[0]));
}

TEST_CASE("mixed precision of shared parameters gives what one PE gives", "[fsdp][shared]") {
  const DType reduce = GENERATE(DType::f32, DType::bf16, DType::f16);
  const bool reshards = GENERATE(true, false);
  CAPTURE(name_of(reduce), reshards);
  FsdpSetting setting{.ranks = 4, .width = 19, .steps = 1};
  setting.options.reshard_after_forward = reshards;
  setting.options.mp_policy = {
      .param_dtype = DType::bf16, .reduce_dtype = reduce, .output_dtype = DType::f32};
  const FsdpLearned alone = learn(setting);
  setting.on = kFourPes;
  const FsdpLearned learned = learn(setting);
  CHECK(learned.losses == alone.losses);
  CHECK(learned.weights == alone.weights);
}

// A weight of 19 rows lies on 4 PEs of 5, 5, 5 and 4 rows; the shards of 2 ranks have 10 and 9.
TEST_CASE("shards lie over the PEs as parameters do, and gradients beside them", "[fsdp][shared]") {
  DataParallelWorld world(2, "ahbm", {}, 2);
  world.spawn([&](int rank) {
    const nn::Linear linear(world.torch, 4, 19, kFourPes.weights());
    fully_shard(linear);
    const Tensor shard = linear->parameters().front();
    CHECK(shard.shape() == Shape{rank == 0 ? 10 : 9, 4});
    CHECK(shard.dp() == kFourPes.weights().dp);
    std::vector<std::int64_t> rows;
    for (const ShardInfo& info : shard.shards()) rows.push_back(info.shape[0]);
    CHECK(rows == (rank == 0 ? std::vector<std::int64_t>{3, 2, 3, 2}
                             : std::vector<std::int64_t>{3, 2, 2, 2}));
    const Tensor x = world.tensor(batch_rows(rank * 4, 4, 1), {4, kBatchColumns}, kFourPes.rows());
    linear(x).sum().backward();
    CHECK(shard.grad().dp() == shard.dp());
    CHECK(linear->weight.dp() == kFourPes.weights().dp);
  });
}

TEST_CASE("states of shared parameters are gathered whole, and loaded", "[fsdp][shared]") {
  const int ranks = GENERATE(2, 3, 4);
  DataParallelWorld world(ranks, "ahbm", {}, 2);
  world.spawn([&](int) {
    const nn::Sequential model = two_layers(world.torch, 19, kFourPes.weights());
    const Floats before = whole_parameters(*model);
    shard_layers(model);
    CHECK(whole_parameters(*model) == before);
    const nn::StateDict whole =
        distributed::checkpoint::get_model_state_dict(*model, {.full_state_dict = true});
    CHECK(whole["0.weight"].dp() == kFourPes.weights().dp);
    for (const Tensor& parameter : model->parameters()) {
      if (parameter.numel() > 0) parameter.detach().zero_();
    }
    CHECK(whole_parameters(*model) == Floats(before.size(), 0));
    distributed::checkpoint::set_model_state_dict(*model, whole, {.full_state_dict = true});
    CHECK(whole_parameters(*model) == before);
  });
}

TEST_CASE("parameters of a call lie on the same PEs, whole or cut by rows", "[fsdp][shared]") {
  const auto refusal = [](const DPPolicy& first, const DPPolicy& second) {
    DataParallelWorld world(2, "ahbm", {}, 2);
    return world.refusal([&](int) {
      const nn::Sequential model(
          nn::Linear(world.torch, nn::LinearOptions(4, 4).bias(false), {.dp = first}),
          nn::Linear(world.torch, nn::LinearOptions(4, 4).bias(false), {.dp = second}));
      fully_shard(model);
    });
  };
  const DPPolicy shared = DPPolicy::shared(2, 2);
  CHECK_THAT(refusal(shared, DPPolicy::shared(2, 1)),
             Contains("[KB-A020] fully_shard: parameter '1.weight' has placement cube=cut 0, "
                      "pe=replicate, num_cubes=2, num_pes=1; parameters of one call lie on the "
                      "same PEs, each whole on all of them or cut by rows"));
  CHECK_THAT(refusal(shared, {Shard::column_wise, Shard::replicate, 2, 2}),
             Contains("[KB-A020] fully_shard: parameter '1.weight' has placement cube=cut 1"));
}

constexpr std::int64_t kSide = 128;
constexpr int kLayers = 4;

// Only the links between SIPs and PE_GEMM take time; a cube has `pes` PEs.
struct Step {
  std::vector<Time> gathers, scatters;
  std::vector<Bytes> bytes;  // of rank 0's part of each collective
  Time end{0};
  Time exposed{0};
};

Step step_on(int pes, std::int64_t bandwidth = 50'000'000'000) {
  Topology topology = links_and_gemm();
  topology.cube.pe_per_corner = 2;
  topology.system.sip_link.bandwidth = Bandwidth{bandwidth};
  RuntimeContext torch(topology, {.data = false, .profile = true});
  torch.distributed.init_process_group("ahbm");
  Step step;
  run_on_devices(torch, 2, [&](int rank) {
    const UsedPes on{1, pes};
    const nn::Sequential model(std::make_shared<nn::SequentialImpl>());
    for (int i = 0; i < kLayers; ++i) {
      const nn::Linear linear(torch, nn::LinearOptions(kSide, kSide).bias(false), on.weights());
      model->push_back(linear);
      if (i + 1 < kLayers) fully_shard(linear);
    }
    const FSDPModule fsdp = fully_shard(model);
    model(torch.zeros({64, kSide}, {.dp = on.rows()})).sum().backward();
    const auto times = fsdp.last_step();
    if (rank == 0) step.exposed = times.exposed;
  });
  step.end = torch.engine().now();
  for (const RunSpan& span : simulation_of(torch).run_log()->spans()) {
    if (span.kind != RunSpan::Kind::collective || span.rank != 0 || span.bytes == 0) continue;
    (span.name == "all_gather_into_tensor" ? step.gathers : step.scatters)
        .push_back(span.end - span.start);
    step.bytes.push_back(span.bytes);
  }
  return step;
}

// Each rank's half of a weight crosses a link, whose latency is 500 ns.
TEST_CASE("the PEs of a rank send their shares at once, together as fast as the link",
          "[fsdp][shared][timing]") {
  const std::int64_t bandwidth = GENERATE(50'000'000'000, 25'000'000'000);
  constexpr Bytes kHalf = kSide * kSide * 4 / 2;
  const Time expected{500'000 + kHalf * 1'000'000'000'000 / bandwidth};
  for (const int pes : {1, 2}) {
    CAPTURE(bandwidth, pes);
    const Step step = step_on(pes, bandwidth);
    REQUIRE(step.gathers.size() == 2 * kLayers - 1);  // all twice, but the root
    REQUIRE(step.scatters.size() == kLayers);
    for (const Bytes bytes : step.bytes) CHECK(bytes == kHalf);
    CHECK(step.gathers.front() == expected);
    CHECK(step.scatters.back() == expected);
  }
}

TEST_CASE("links that are slower and PEs that are faster expose more of a step",
          "[fsdp][shared][timing]") {
  const Step step = step_on(2);
  CHECK(step_on(2, 25'000'000'000).exposed > step.exposed);
  CHECK(step_on(1).exposed < step.exposed);
  CHECK(step_on(1).end > step.end);
}

}  // namespace
}  // namespace kernbench::test::fsdp_shared_test
