// Tests pipelines whose stages are replicated by Megatron's DistributedDataParallel: main_grad is
// the gradient of the whole batch, and is reduced once a step, with the last backward.

#include <algorithm>
#include <cstddef>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "runtime/simulation/simulation.h"
#include "runtime/torch/internals.h"
#include "test/parallel/pipeline_world.h"
#include "tp/distributed_data_parallel.h"
#include "tp/parallel_state.h"
#include "tp/param_and_grad_buffer.h"

namespace kernbench::test::pipeline_megatron_test {
namespace {

using Megatron = tp::DistributedDataParallel<nn::Sequential>;
using pipelining::ActionLists;
using pipelining::PipelineSize;
using pipelining::PipelineStage;

constexpr int kMicrobatches = 4;    // of each replica
constexpr std::int64_t kRows = 16;  // of the whole batch

// The stages of a rank; without replicas they are plain modules.
struct Stages {
  Stages(RuntimeContext& torch, const ActionLists& lists, int replicas) {
    tp::initialize_model_parallel(torch,
                                  {.pipeline_model_parallel_size = static_cast<int>(lists.size())});
    const distributed::ProcessGroup group = tp::get_pipeline_model_parallel_group(torch);
    const auto& list = lists[static_cast<std::size_t>(torch.distributed.get_rank(group))];
    int count = 0;
    for (const auto& of_rank : lists) {
      for (const auto& action : of_rank) count = std::max(count, action.stage + 1);
    }
    for (int i = 0; i < count; ++i) {
      if (std::ranges::find(list, i, &pipelining::Action::stage) == list.end()) continue;
      blocks.push_back(whole_number_block(torch, i));
      if (replicas == 1) {
        all.emplace_back(torch, blocks.back(), i, count,
                         pipelining::PipelineStageOptions{.group = group});
        continue;
      }
      megatron.emplace_back(torch, tp::DistributedDataParallelConfig{.overlap_grad_reduce = true},
                            blocks.back());
      all.emplace_back(torch, megatron.back(), i, count,
                       pipelining::PipelineStageOptions{.group = group});
    }
  }

  std::vector<Floats> gradients(std::size_t i) const {
    std::vector<Floats> found;
    for (const Tensor& parameter : blocks[i]->parameters()) {
      if (megatron.empty()) {
        found.push_back(parameter.grad().to_vector());
        continue;
      }
      for (const auto& bucket : megatron[i]->buckets()) {
        const auto& params = bucket->params();
        const auto own = std::ranges::find(params, parameter.storage(), &Tensor::storage);
        if (own == params.end()) continue;
        found.push_back(bucket->main_grad(static_cast<std::size_t>(own - params.begin()))
                            .mul(2)  // a mean of two replicas
                            .to_vector());
      }
    }
    return found;
  }

  std::vector<nn::Sequential> blocks;
  std::vector<Megatron> megatron;  // of the blocks
  std::vector<PipelineStage> all;
};

int count_reductions(RuntimeContext& torch) {
  int count = 0;
  for (const auto& event : simulation_of(torch).flight_recorder().events(0)) {
    if (std::string(event.function).find("reduce") != std::string::npos) ++count;
  }
  return count;
}

// Returns the gradients of a step by stage.  If it `throws`, a step comes before it whose losses
// throw in the third micro-batch on all replicas.
std::vector<std::vector<Floats>> learn(const ActionLists& lists, int replicas, bool throws) {
  const int ranks = static_cast<int>(lists.size()) * replicas;
  DataParallelWorld world(ranks);
  std::vector<std::vector<Floats>> gradients(8);
  world.spawn([&](int rank) {
    const int replica = rank % replicas;
    Stages own(world.torch, lists, replicas);
    int calls_left = throws ? 3 : -1;
    const auto loss = [&](const Tensor& y, const Tensor& target) {
      if (--calls_left == 0) throw std::runtime_error("no loss");
      return squares(y, target);
    };
    pipelining::PipelineScheduleRuntime schedule(own.all, kMicrobatches, loss, lists,
                                                 {.scale_grads = false});
    const std::int64_t rows = kRows / replicas;
    const auto batch = [&](int seed) {
      return world.tensor(batch_rows(replica * rows, rows, seed), {rows, kBatchColumns});
    };
    if (throws) CHECK_THROWS_AS(schedule.step(batch(3), {.target = batch(4)}), std::runtime_error);
    for (const Megatron& each : own.megatron) each->zero_grad_buffer();
    const int before = count_reductions(world.torch);
    schedule.step(batch(1), {.target = batch(2)});
    for (const Megatron& each : own.megatron) tp::finalize_model_grads(each);
    if (rank == 0) CHECK(count_reductions(world.torch) - before == std::ssize(own.megatron));
    for (std::size_t i = 0; i < own.all.size(); ++i) {
      auto& of_stage = gradients[static_cast<std::size_t>(own.all[i].stage_index())];
      if (replica == 0) of_stage = own.gradients(i);
    }
  });
  return gradients;
}

TEST_CASE("stages that Megatron's DistributedDataParallel wraps reduce the whole batch's gradients",
          "[pipelining][ddp]") {
  const PipelineSize single{.stages = 2, .ranks = 2, .microbatches = kMicrobatches};
  const PipelineSize several{.stages = 4, .ranks = 2, .microbatches = kMicrobatches};
  for (const ActionLists& lists : {gpipe(single), one_f_one_b(single), zb_h1(single),
                                   interleaved(several), zbv_zero_bubble(several)}) {
    CAPTURE(pipelining::to_csv(lists));
    const auto expected = learn(lists, 1, false);
    REQUIRE(expected.front().front() != Floats(16, 0));
    CHECK(learn(lists, 2, false) == expected);
  }
}

TEST_CASE("a step of Megatron's replicas that an exception has left sends nothing in the next one",
          "[pipelining][ddp][errors]") {
  const PipelineSize size{.stages = 2, .ranks = 1, .microbatches = kMicrobatches};
  for (const ActionLists& lists : {interleaved(size), interleaved_zero_bubble(size)}) {
    CHECK(learn(lists, 2, true) == learn(lists, 1, false));
  }
}

}  // namespace
}  // namespace kernbench::test::pipeline_megatron_test
