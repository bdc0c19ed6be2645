// Tests that pipelines compute what the model computes without one, and what they refuse.

#include <memory>

#include "test/parallel/pipeline_world.h"

namespace kernbench::test::pipeline_test {
namespace {

using pipelining::ActionLists;
using pipelining::PipelineSize;
using pipelining::PipelineStage;
using pipelining::PipelineStageOptions;

constexpr int kMicrobatches = 4;
constexpr std::int64_t kRows = 8;

using Gradients = std::vector<Floats>;

void collect_gradients(Gradients& gradients, const nn::Sequential& layers) {
  for (const Tensor& parameter : layers->parameters()) {
    gradients.push_back(parameter.grad().to_vector());
  }
}

struct Results {
  std::vector<Gradients> gradients;  // by stage
  Floats losses;                     // by micro-batch

  friend bool operator==(const Results&, const Results&) = default;
};

// One rank runs all stages, micro-batch after micro-batch.
Results run_whole(int stages) {
  DataParallelWorld world(2);
  Results results{.gradients = std::vector<Gradients>(static_cast<std::size_t>(stages)),
                  .losses = {}};
  world.spawn([&](int rank) {
    if (rank != 0) return;
    std::vector<nn::Sequential> blocks;
    for (int i = 0; i < stages; ++i) blocks.push_back(whole_number_block(world.torch, i));
    constexpr std::int64_t kPart = kRows / kMicrobatches;
    for (int i = 0; i < kMicrobatches; ++i) {
      Tensor x = world.tensor(batch_rows(i * kPart, kPart, 1), {kPart, kBatchColumns});
      for (const nn::Sequential& each : blocks) x = each(x);
      const Tensor loss =
          squares(x, world.tensor(batch_rows(i * kPart, kPart, 2), {kPart, kBatchColumns}));
      loss.backward();
      results.losses.push_back(loss.item());
    }
    for (int i = 0; i < stages; ++i) {
      collect_gradients(results.gradients[static_cast<std::size_t>(i)],
                        blocks[static_cast<std::size_t>(i)]);
    }
  });
  return results;
}

// The same on ranks, each of which has the stages that the lists give it.
Results run_pipeline(int stages, const ActionLists& lists) {
  const int ranks = static_cast<int>(lists.size());
  DataParallelWorld world(ranks);
  Results results{.gradients = std::vector<Gradients>(static_cast<std::size_t>(stages)),
                  .losses = {}};
  world.spawn([&](int rank) {
    std::vector<PipelineStage> own;
    std::vector<nn::Sequential> blocks;
    for (int i = 0; i < stages; ++i) {
      const auto& list = lists[static_cast<std::size_t>(rank)];
      const bool is_own =
          std::ranges::any_of(list, [&](const auto& each) { return each.stage == i; });
      if (!is_own) continue;
      blocks.push_back(whole_number_block(world.torch, i));
      own.emplace_back(world.torch, blocks.back(), i, stages);
    }
    pipelining::PipelineScheduleRuntime schedule(own, kMicrobatches, squares, lists,
                                                 {.scale_grads = false});
    const Shape shape{kRows, kBatchColumns};
    std::vector<Tensor> losses;
    schedule.step(world.tensor(batch_rows(0, kRows, 1), shape),
                  {.target = world.tensor(batch_rows(0, kRows, 2), shape), .losses = &losses});
    for (std::size_t i = 0; i < own.size(); ++i) {
      collect_gradients(results.gradients[static_cast<std::size_t>(own[i].stage_index())],
                        blocks[i]);
      if (!own[i].is_last()) continue;
      for (const Tensor& loss : losses) results.losses.push_back(loss.item());
    }
  });
  return results;
}

TEST_CASE("gradients and losses are those of the model without a pipeline, bit for bit",
          "[pipelining]") {
  const Results whole = run_whole(4);
  REQUIRE(whole.losses.size() == kMicrobatches);
  REQUIRE(whole.losses.front() != 0);
  REQUIRE(whole.gradients.front().front() != Floats(16, 0));
  const PipelineSize single{.stages = 4, .ranks = 4, .microbatches = kMicrobatches};
  CHECK(run_pipeline(4, gpipe(single)) == whole);
  CHECK(run_pipeline(4, one_f_one_b(single)) == whole);
  const PipelineSize several{.stages = 4, .ranks = 2, .microbatches = kMicrobatches};
  CHECK(run_pipeline(4, interleaved(several)) == whole);
  CHECK(run_pipeline(4, looped_bfs(several)) == whole);
}

TEST_CASE("backwards in two halves compute the same, bit for bit", "[pipelining]") {
  const Results whole = run_whole(4);
  const PipelineSize single{.stages = 4, .ranks = 4, .microbatches = kMicrobatches};
  CHECK(run_pipeline(4, zb_h1(single)) == whole);
  CHECK(run_pipeline(4, zb_h2(single)) == whole);
  const PipelineSize several{.stages = 4, .ranks = 2, .microbatches = kMicrobatches};
  CHECK(run_pipeline(4, interleaved_zero_bubble(several)) == whole);
  CHECK(run_pipeline(4, zbv_zero_bubble(several)) == whole);
  CHECK(run_pipeline(4, dual_pipe_v(several)) == whole);
}

// Rank 0 has the first and the last stage, and rank 1 two that are neighbours: nothing is sent
// between those.
TEST_CASE("a schedule of the user's runs, with its own places of stages", "[pipelining]") {
  const ActionLists lists = pipelining::parse_actions(
      "0F0,0F1,3F0,3B0,0F2,3F1,3B1,0F3,3F2,3B2,3F3,3B3,0B0,0B1,0B2,0B3\n"
      "1F0,2F0,1F1,2F1,2B0,1B0,1F2,2F2,2B1,1B1,1F3,2F3,2B2,1B2,2B3,1B3\n");
  CHECK(run_pipeline(4, lists) == run_whole(4));
}

TEST_CASE("a first stage that learns nothing has no backward", "[pipelining]") {
  constexpr std::int64_t kPart = kRows / kMicrobatches;
  const auto twice = [](const Tensor& x) { return x + x; };
  DataParallelWorld alone(1);
  const nn::Sequential expected = whole_number_block(alone.torch, 1);
  for (int i = 0; i < kMicrobatches; ++i) {
    const Shape shape{kPart, kBatchColumns};
    const Tensor x = alone.tensor(batch_rows(i * kPart, kPart, 1), shape);
    const Tensor target = alone.tensor(batch_rows(i * kPart, kPart, 2), shape);
    squares(expected(twice(x)), target).backward();
  }
  Gradients wanted;
  collect_gradients(wanted, expected);
  const PipelineSize size{.stages = 2, .ranks = 2, .microbatches = kMicrobatches};
  for (const ActionLists& lists : {one_f_one_b(size), zb_h1(size)}) {
    DataParallelWorld world(2);
    Gradients found;
    world.spawn([&](int rank) {
      const nn::Sequential layers = whole_number_block(world.torch, 1);
      const PipelineStage stage = rank == 0 ? PipelineStage(world.torch, twice, 0, 2)
                                            : PipelineStage(world.torch, layers, 1, 2);
      pipelining::PipelineScheduleRuntime schedule({stage}, kMicrobatches, squares, lists,
                                                   {.scale_grads = false});
      const Shape shape{kRows, kBatchColumns};
      schedule.step(world.tensor(batch_rows(0, kRows, 1), shape),
                    {.target = world.tensor(batch_rows(0, kRows, 2), shape)});
      if (rank == 1) collect_gradients(found, layers);
    });
    CHECK(found == wanted);
  }
}

TEST_CASE("gradients are divided by the number of micro-batches unless scale_grads is false",
          "[pipelining]") {
  const auto gradient = [](const pipelining::ScheduleOptions& options) {
    DataParallelWorld world(1);
    const nn::Sequential layers = whole_number_block(world.torch, 0);
    const PipelineStage stage(world.torch, layers, 0, 1);
    const Tensor x = world.tensor(batch_rows(0, kRows, 1), {kRows, kBatchColumns});
    pipelining::ScheduleGPipe(stage, kMicrobatches, squares, options).step(x, {.target = x});
    return layers->parameters().front().grad().to_vector();
  };
  Floats whole = gradient({.scale_grads = false});
  REQUIRE(whole != Floats(whole.size(), 0));
  for (float& each : whole) each /= kMicrobatches;
  CHECK(gradient({}) == whole);
}

TEST_CASE("without a loss a schedule runs forward alone", "[pipelining]") {
  DataParallelWorld world(2);
  world.spawn([&](int rank) {
    const nn::Sequential layers = whole_number_block(world.torch, rank);
    const PipelineStage stage(world.torch, layers, rank, 2);
    pipelining::Schedule1F1B schedule(stage, kMicrobatches);
    const Tensor x = world.tensor(batch_rows(0, kRows, 1), {kRows, kBatchColumns});
    std::vector<Tensor> outputs;
    schedule.step(x, {.outputs = &outputs});
    CHECK(layers->parameters().front().grad().defined() == false);
    if (rank == 0) return;
    const Tensor whole = layers(whole_number_block(world.torch, 0)(x));
    CHECK(cat(outputs).to_vector() == whole.to_vector());
  });
}

TEST_CASE("a second step adds to the gradients, and takes a batch that is cut already",
          "[pipelining]") {
  DataParallelWorld world(2);
  world.spawn([&](int rank) {
    const nn::Sequential layers = whole_number_block(world.torch, rank);
    const PipelineStage stage(world.torch, layers, rank, 2);
    pipelining::Schedule1F1B schedule(stage, kMicrobatches, squares, {.scale_grads = false});
    const Tensor x = world.tensor(batch_rows(0, kRows, 1), {kRows, kBatchColumns});
    const Tensor y = world.tensor(batch_rows(0, kRows, 2), {kRows, kBatchColumns});
    std::vector<Tensor> outputs;
    schedule.step(x, {.target = y, .outputs = &outputs});
    CHECK(outputs.size() == (rank == 1 ? kMicrobatches : 0));
    Floats twice = layers->parameters().front().grad().to_vector();
    REQUIRE(twice != Floats(twice.size(), 0));
    for (float& each : twice) each *= 2;
    schedule.step(chunk(x, kMicrobatches), chunk(y, kMicrobatches));
    CHECK(layers->parameters().front().grad().to_vector() == twice);
  });
}

// PEs share the rows of each micro-batch, and the weights.
TEST_CASE("stages of several PEs have the gradients of one", "[pipelining]") {
  const auto gradients = [](const UsedPes& used) {
    Gradients found(2);
    DataParallelWorld world(2);
    world.spawn([&](int rank) {
      const nn::Linear layer(world.torch, kBatchColumns, kBatchColumns, used.weights());
      fill_parameters(world.torch, *layer);
      const PipelineStage stage(world.torch, layer, rank, 2);
      pipelining::Schedule1F1B schedule(stage, kMicrobatches, squares);
      std::vector<Tensor> inputs;
      for (int i = 0; i < kMicrobatches; ++i) {
        inputs.push_back(world.tensor(batch_rows(2 * i, 2, 1), {2, kBatchColumns}, used.rows()));
      }
      schedule.step(inputs, inputs);
      found[static_cast<std::size_t>(rank)] = layer->weight.grad().to_vector();
    });
    return found;
  };
  CHECK(gradients({.cubes = 1, .pes = 2}) == gradients({.cubes = 1, .pes = 1}));
}

}  // namespace
}  // namespace kernbench::test::pipeline_test
