// Tests pipelines whose stages are replicated by DistributedDataParallel, or sharded by
// fully_shard: gradients are those of the whole batch, and are reduced once a step.

#include <algorithm>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include "runtime/distributed/process_group.h"
#include "runtime/simulation/simulation.h"
#include "runtime/torch/internals.h"
#include "test/parallel/fsdp_world.h"
#include "test/parallel/pipeline_world.h"

namespace kernbench::test::pipeline_replicas_test {
namespace {

using nn::parallel::DistributedDataParallel;
using nn::parallel::DistributedDataParallelOptions;
using pipelining::ActionLists;
using pipelining::PipelineSize;
using pipelining::PipelineStage;
using pipelining::PipelineStageOptions;

constexpr int kMicrobatches = 4;    // of each replica
constexpr std::int64_t kRows = 16;  // of the whole batch
constexpr int kReplicas = 2;

// The last four are sharded: with parameters kept from forward on, freed after it, of a module
// inside of the stage's, and with gradients of another type than the parameters.
enum class Scheme { none, ddp, bucket_views, fsdp2, fsdp2_resharded, fsdp2_inner, fsdp2_bf16 };

bool is_sharded(Scheme scheme) {
  return scheme >= Scheme::fsdp2;
}

PipelineStage stage_of(RuntimeContext& torch, const nn::Sequential& layers, int index, int stages,
                       Scheme scheme, const distributed::DeviceMesh& mesh) {
  const PipelineStageOptions options{.group = mesh["pp"].get_group()};
  if (is_sharded(scheme)) {
    FullyShardOptions sharding{.mesh = mesh["dp"],
                               .reshard_after_forward = scheme == Scheme::fsdp2_resharded};
    if (scheme == Scheme::fsdp2_bf16) {
      sharding.mp_policy = {.param_dtype = DType::bf16, .reduce_dtype = DType::f32};
    }
    if (scheme == Scheme::fsdp2_inner) {
      fully_shard(*layers->children().front(), sharding);
    } else {
      fully_shard(layers, sharding);
    }
  }
  if (scheme == Scheme::none || is_sharded(scheme)) {
    return PipelineStage(torch, layers, index, stages, options);
  }
  const DistributedDataParallel replicas(
      layers, {.process_group = mesh["dp"].get_group(),
               .gradient_as_bucket_view = scheme == Scheme::bucket_views});
  return PipelineStage(torch, replicas, index, stages, options);
}

using Parameters = std::vector<Floats>;

struct Learned {
  // By stage and replica: the gradients of the parameters, or of its part of them.
  std::vector<std::vector<Parameters>> gradients;
  std::vector<std::string> reductions;  // rank 0's collectives in the second step
};

std::vector<std::string> reductions_of(RuntimeContext& torch) {
  std::vector<std::string> names;
  for (const auto& event : simulation_of(torch).flight_recorder().events(0)) {
    const std::string name(event.function);
    if (name.find("reduce") != std::string::npos) names.push_back(name);
  }
  return names;
}

// Two steps, of which the second one's gradients are added to the first one's.
Learned learn(int stages, const ActionLists& lists, Scheme scheme) {
  const int replicas = scheme == Scheme::none ? 1 : kReplicas;
  const int ranks = static_cast<int>(lists.size()) * replicas;
  DataParallelWorld world(ranks);
  Learned learned;
  learned.gradients.assign(static_cast<std::size_t>(stages),
                           std::vector<Parameters>(static_cast<std::size_t>(replicas)));
  world.spawn([&](int rank) {
    const auto mesh = world.torch.distributed.init_device_mesh("ahbm", {ranks / replicas, replicas},
                                                               {"pp", "dp"});
    const int replica = rank % replicas;
    const auto& list = lists[static_cast<std::size_t>(rank / replicas)];
    std::vector<PipelineStage> own;
    std::vector<nn::Sequential> blocks;
    for (int i = 0; i < stages; ++i) {
      if (std::ranges::find(list, i, &pipelining::Action::stage) == list.end()) continue;
      blocks.push_back(whole_number_block(world.torch, i));
      own.push_back(stage_of(world.torch, blocks.back(), i, stages, scheme, mesh));
    }
    pipelining::PipelineScheduleRuntime schedule(own, kMicrobatches, squares, lists,
                                                 {.scale_grads = false});
    const std::int64_t rows = kRows / replicas;
    const auto batch = [&](int seed) {
      return world.tensor(batch_rows(replica * rows, rows, seed), {rows, kBatchColumns});
    };
    schedule.step(batch(1), {.target = batch(2)});
    const std::size_t before = reductions_of(world.torch).size();
    schedule.step(batch(3), {.target = batch(4)});
    if (rank == 0) {
      learned.reductions = reductions_of(world.torch);
      learned.reductions.erase(learned.reductions.begin(),
                               learned.reductions.begin() + static_cast<std::ptrdiff_t>(before));
    }
    for (std::size_t i = 0; i < own.size(); ++i) {
      for (const Tensor& parameter : blocks[i]->parameters()) {
        learned
            .gradients[static_cast<std::size_t>(own[i].stage_index())]
                      [static_cast<std::size_t>(replica)]
            .push_back((parameter.grad() * replicas).to_vector());
      }
    }
  });
  return learned;
}

// The gradients that all replicas have, or that their parts are of.
std::vector<Parameters> whole(const Learned& learned, Scheme scheme) {
  std::vector<Parameters> all;
  for (const std::vector<Parameters>& stage : learned.gradients) {
    Parameters& parameters = all.emplace_back(stage.front());
    for (std::size_t replica = 1; replica < stage.size(); ++replica) {
      if (!is_sharded(scheme)) CHECK(stage[replica] == parameters);
      for (std::size_t i = 0; i < parameters.size() && is_sharded(scheme); ++i) {
        std::ranges::copy(stage[replica][i], std::back_inserter(parameters[i]));
      }
    }
  }
  return all;
}

int stages_in(const ActionLists& lists) {
  int count = 0;
  for (const auto& list : lists) {
    for (const auto& action : list) count = std::max(count, action.stage + 1);
  }
  return count;
}

void check_replicas(const ActionLists& lists, const std::vector<Scheme>& schemes) {
  const int stages = stages_in(lists);
  CAPTURE(pipelining::to_csv(lists));
  const std::vector<Parameters> expected = whole(learn(stages, lists, Scheme::none), Scheme::none);
  REQUIRE(expected.front().front() != Floats(16, 0));
  for (const Scheme scheme : schemes) {
    const Learned learned = learn(stages, lists, scheme);
    CAPTURE(static_cast<int>(scheme));
    CHECK(whole(learned, scheme) == expected);
    CHECK(std::ssize(learned.reductions) == stages / 2);  // one for each stage of rank 0
  }
}

TEST_CASE("replicated and sharded stages get the gradients of the whole batch, reduced once a step",
          "[pipelining][ddp][fsdp]") {
  const PipelineSize single{.stages = 2, .ranks = 2, .microbatches = kMicrobatches};
  const PipelineSize several{.stages = 4, .ranks = 2, .microbatches = kMicrobatches};
  for (const ActionLists& lists :
       {gpipe(single), one_f_one_b(single), zb_h1(single), zb_h2(single), interleaved(several),
        zbv_zero_bubble(several), dual_pipe_v(several)}) {
    check_replicas(lists, {Scheme::ddp, Scheme::bucket_views, Scheme::fsdp2,
                           Scheme::fsdp2_resharded, Scheme::fsdp2_inner});
  }
}

// Sums of whole numbers in bf16 would lose their last bits.
TEST_CASE("gradients of all halves are added in the type in which they are reduced",
          "[pipelining][fsdp]") {
  const PipelineSize size{.stages = 2, .ranks = 2, .microbatches = kMicrobatches};
  const auto expected = whole(learn(2, one_f_one_b(size), Scheme::fsdp2_bf16), Scheme::fsdp2_bf16);
  CHECK(whole(learn(2, zb_h1(size), Scheme::fsdp2_bf16), Scheme::fsdp2_bf16) == expected);
  CHECK(whole(learn(2, zb_h2(size), Scheme::fsdp2_bf16), Scheme::fsdp2_bf16) == expected);
}

// Returns rank 0's gradients of a step; before it, if it `throws`, comes one whose losses throw in
// the third micro-batch, on both replicas.
Floats gradients_after(bool throws, Scheme scheme, const ActionLists& lists) {
  Floats gradients;
  DataParallelWorld world(kReplicas);
  world.spawn([&](int rank) {
    const auto mesh =
        world.torch.distributed.init_device_mesh("ahbm", {1, kReplicas}, {"pp", "dp"});
    const std::vector<nn::Sequential> blocks{whole_number_block(world.torch, 0),
                                             whole_number_block(world.torch, 1)};
    const std::vector<PipelineStage> stages{stage_of(world.torch, blocks[0], 0, 2, scheme, mesh),
                                            stage_of(world.torch, blocks[1], 1, 2, scheme, mesh)};
    int calls_left = throws ? 3 : -1;
    const auto loss = [&](const Tensor& y, const Tensor& target) {
      if (--calls_left == 0) throw std::runtime_error("no loss");
      return squares(y, target);
    };
    pipelining::PipelineScheduleRuntime schedule(stages, kMicrobatches, loss, lists);
    const Tensor x = world.tensor(batch_rows(rank, kRows, 1), {kRows, kBatchColumns});
    std::string text = throws ? "" : "no loss";
    try {
      if (throws) schedule.step(x, {.target = x});
    } catch (const std::runtime_error& error) {
      text = error.what();
    }
    CHECK(text == "no loss");
    for (const nn::Sequential& block : blocks) block->zero_grad();
    schedule.step(x, {.target = x});
    if (rank != 0) return;
    for (const nn::Sequential& block : blocks) {
      for (const Tensor& parameter : block->parameters()) {
        std::ranges::copy(parameter.grad().to_vector(), std::back_inserter(gradients));
      }
    }
  });
  return gradients;
}

TEST_CASE("a step that an exception has left leaves nothing to the next one",
          "[pipelining][ddp][fsdp][errors]") {
  const PipelineSize size{.stages = 2, .ranks = 1, .microbatches = kMicrobatches};
  for (const Scheme scheme : {Scheme::ddp, Scheme::fsdp2, Scheme::fsdp2_bf16}) {
    for (const ActionLists& lists : {interleaved(size), interleaved_zero_bubble(size)}) {
      CAPTURE(static_cast<int>(scheme), pipelining::to_csv(lists));
      const Floats expected = gradients_after(false, scheme, lists);
      REQUIRE_FALSE(expected.empty());
      CHECK(gradients_after(true, scheme, lists) == expected);
    }
  }
}

TEST_CASE("a list says when a stage's parameters are gathered, freed and reduced",
          "[pipelining][fsdp]") {
  const PipelineSize size{.stages = 4, .ranks = 2, .microbatches = kMicrobatches};
  ActionLists lists = add_messages(interleaved_zero_bubble(size));
  for (auto& list : lists) {
    const int first = list.front().stage;
    for (const int stage : {first, first + 2}) {
      list.insert(list.begin(), {stage, pipelining::ActionKind::unshard});
      list.push_back({stage, pipelining::ActionKind::reshard});
      list.push_back({stage, pipelining::ActionKind::reduce_grad});
    }
  }
  check_replicas(lists, {Scheme::ddp, Scheme::fsdp2, Scheme::fsdp2_resharded});
}

}  // namespace
}  // namespace kernbench::test::pipeline_replicas_test
