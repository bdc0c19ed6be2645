// Tests pipelines beside other axes: tensor-parallel layers in stages, and embeddings that the
// first and the last stage share.

#include "runtime/functional/functional.h"
#include "test/parallel/pipeline_world.h"
#include "tp/layers.h"
#include "tp/parallel_state.h"

namespace kernbench::test::pipeline_axes_test {
namespace {

using pipelining::ActionLists;
using pipelining::PipelineSize;
using pipelining::PipelineStage;
using pipelining::PipelineStageOptions;

constexpr int kStages = 2;
constexpr int kMicrobatches = 4;
constexpr std::int64_t kRows = 8;
constexpr std::int64_t kHidden = 8;

float integer(std::int64_t i, int seed) {
  return static_cast<float>((7 * i + 11 * seed + 3) % 3 - 1);
}

tp::InitMethod integers(int seed) {
  return tp::InitMethod([seed](const Shape& shape, tp::Generator&) {
    Floats all;
    for (std::int64_t i = 0; i < shape.numel(); ++i) all.push_back(integer(i, seed));
    return all;
  });
}

struct MlpImpl : nn::Module {
  MlpImpl(RuntimeContext& torch, int seed)
      : up(torch, {.in_features = kBatchColumns,
                   .out_features = kHidden,
                   .init_method = integers(seed),
                   .dtype = DType::f32}),
        down(torch, {.in_features = kHidden,
                     .out_features = kBatchColumns,
                     .init_method = integers(seed + 1),
                     .dtype = DType::f32}) {
    register_module("up", up);
    register_module("down", down);
  }
  Tensor forward(const Tensor& x) const { return down(relu(up(x))); }

  tp::ColumnParallelLinear up;
  tp::RowParallelLinear down;
};
KERNBENCH_MODULE(Mlp);

// Sums of the squares of gradients of each stage's weights, over the ranks that share them.
std::vector<double> learn(int pp, int tp_size, const ActionLists& lists) {
  DataParallelWorld world(pp * tp_size);
  std::vector<double> norms(2 * kStages);
  world.spawn([&](int) {
    tp::initialize_model_parallel(
        world.torch, {.tensor_model_parallel_size = tp_size, .pipeline_model_parallel_size = pp});
    const PipelineStageOptions options{.group = tp::get_pipeline_model_parallel_group(world.torch)};
    std::vector<PipelineStage> stages;
    std::vector<Mlp> blocks;
    for (int i = 0; i < kStages; ++i) {
      if (i % pp != tp::get_pipeline_model_parallel_rank(world.torch)) continue;
      blocks.emplace_back(world.torch, 2 * i + 1);
      stages.emplace_back(world.torch, blocks.back(), i, kStages, options);
    }
    pipelining::PipelineScheduleRuntime schedule(stages, kMicrobatches, squares, lists,
                                                 {.scale_grads = false});
    const Shape shape{kRows, kBatchColumns};
    schedule.step(world.tensor(batch_rows(0, kRows, 1), shape),
                  {.target = world.tensor(batch_rows(0, kRows, 2), shape)});
    for (std::size_t i = 0; i < stages.size(); ++i) {
      const auto first = 2 * static_cast<std::size_t>(stages[i].stage_index());
      const auto add = [&](std::size_t at, const Tensor& weight) {
        for (const double each : weight.grad().to_vector()) norms[at] += each * each;
      };
      add(first, blocks[i]->up.weight);
      add(first + 1, blocks[i]->down.weight);
    }
  });
  return norms;
}

TEST_CASE("tensor-parallel layers learn the same in stages", "[pipelining][tp]") {
  const PipelineSize alone{.stages = kStages, .ranks = 1, .microbatches = kMicrobatches};
  const PipelineSize size{.stages = kStages, .ranks = 2, .microbatches = kMicrobatches};
  const std::vector<double> expected = learn(1, 1, looped_bfs(alone));
  for (const double norm : expected) REQUIRE(norm > 0);
  for (const ActionLists& lists : {one_f_one_b(size), zb_h1(size)}) {
    CHECK(learn(2, 1, lists) == expected);
    CHECK(learn(2, 2, lists) == expected);
  }
}

// The weight is an embedding at the first stage, and the head's at the last one, as Megatron's
// share_embeddings_and_output_weights; ranks add up both gradients after the step.
TEST_CASE("a weight that the first and the last stage share gets both gradients",
          "[pipelining][tp]") {
  constexpr std::int64_t kWords = 4;
  const Floats ids{0, 3, 1, 1, 2, 0, 3, 3};
  const auto table_of = [&](DataParallelWorld& world) {
    Floats elements;
    for (std::int64_t i = 0; i < kWords * kBatchColumns; ++i) elements.push_back(integer(i, 1));
    Tensor table = world.tensor(elements, {kWords, kBatchColumns});
    return table.requires_grad_();
  };
  const auto embed = [](const Tensor& x, const Tensor& table) { return matmul(x, table); };
  const auto head = [](const Tensor& x, const Tensor& table) {
    return matmul(x, table, {.transpose_b = true});
  };
  const auto one_hot = [&](DataParallelWorld& world) {
    Floats rows;
    for (const float id : ids) {
      for (int word = 0; word < kWords; ++word) rows.push_back(id == static_cast<float>(word));
    }
    return world.tensor(rows, {kRows, kWords});
  };

  DataParallelWorld alone(1);
  const Tensor expected = table_of(alone);
  squares(head(embed(one_hot(alone), expected), expected), one_hot(alone)).backward();

  DataParallelWorld world(kStages);
  std::vector<Floats> found(kStages);
  world.spawn([&](int rank) {
    tp::initialize_model_parallel(world.torch, {.pipeline_model_parallel_size = kStages});
    const Tensor table = table_of(world);
    const auto forward = [&](const Tensor& x) {
      return rank == 0 ? embed(x, table) : head(x, table);
    };
    const PipelineStage stage(world.torch, forward, rank, kStages);
    pipelining::Schedule1F1B schedule(stage, kMicrobatches, squares, {.scale_grads = false});
    schedule.step(one_hot(world), {.target = one_hot(world)});
    world.torch.distributed.all_reduce(table.grad(), ReduceOp::sum,
                                       {.group = tp::get_embedding_group(world.torch)});
    found[static_cast<std::size_t>(rank)] = table.grad().to_vector();
  });
  CHECK(found[0] == expected.grad().to_vector());
  CHECK(found[1] == expected.grad().to_vector());
}

}  // namespace
}  // namespace kernbench::test::pipeline_axes_test
