// The memory of the bench `train` by kind, and what its checkpoints keep of it.

#include <catch2/catch.hpp>
#include <functional>

#include "benches/train/training.h"
#include "runtime/autograd/checkpoint.h"
#include "runtime/torch/run_ranks.h"
#include "runtime/torch/runtime_context.h"
#include "test/benches/program_json.h"
#include "test/benches/program_under_test.h"
#include "test/support/small_topology.h"

namespace kernbench::benches {
namespace {

using train::Recomputation;

struct Outcome {
  double loss = 0;        // of the second step
  MemoryByKind peak;      // of both
  std::int64_t kept = 0;  // layers that keep their activations
  nn::utils::LayerActivations of_layer;
};

Outcome train_two_steps(const train::TrainingOptions& options) {
  Outcome outcome;
  // Launches that return when they are over: queued ones keep the bases of views, as of a llama's
  // heads, until they have run.
  RuntimeContext torch(test::round_topology(SipTopology::ring_1d, 1, 1, 2, 1),
                       {.launch_blocking = true});
  torch.distributed.init_process_group("ahbm");
  run_ranks(torch, 1, [&](int) {
    train::Training training(torch, options);
    torch.ahbm.synchronize();
    torch.ahbm.reset_peak_memory_stats();
    training.step();
    outcome.loss = training.step().loss;
    outcome.peak = torch.ahbm.memory_stats().peak;
    outcome.kept = options.size.layers;
    for (const bool again : training.recomputed().by_layer) outcome.kept -= again ? 1 : 0;
    outcome.of_layer = training.measure_layer();
  });
  return outcome;
}

// More activations than all else, so that a step's peak is where backward begins.  If the last
// layer alone keeps its own, the peak is a layer earlier, which has an output, computed again, and
// the gradients of the last one beside it.
constexpr train::LanguageModelSize kSize{.layers = 4, .seq = 64, .batch = 4};

TEST_CASE("layers keep their activations within a budget, to the byte", "[train][memory]") {
  const auto kind = GENERATE(train::ModelKind::gpt, train::ModelKind::llama);
  const DType dtype = GENERATE(DType::f32, DType::bf16);
  const train::TrainingOptions all_kept{.model = kind, .size = kSize, .dtype = dtype};
  const Outcome whole = train_two_steps(all_kept);
  const auto [all, input] = whole.of_layer;
  REQUIRE(all > 3 * input);
  for (std::int64_t kept = 2; kept <= kSize.layers; ++kept) {
    train::TrainingOptions options = all_kept;
    const Bytes budget = kept * all + (kSize.layers - kept) * input;
    options.recomputation = {.kind = Recomputation::Kind::budget, .budget = budget};
    const Outcome outcome = train_two_steps(options);
    CAPTURE(name_of(kind), name_of(dtype), kept, all, input);
    CHECK(outcome.kept == kept);
    CHECK(outcome.loss == whole.loss);
    CHECK(whole.peak[MemoryKind::activation] - outcome.peak[MemoryKind::activation] ==
          (kSize.layers - kept) * (all - input));
    CHECK(whole.peak.sum() - outcome.peak.sum() == (kSize.layers - kept) * (all - input));
  }
}

TEST_CASE("what is computed again has the same losses and takes less memory", "[train][memory]") {
  const auto kind = GENERATE(train::ModelKind::gpt, train::ModelKind::llama);
  const auto run = [&](Recomputation recomputation) {
    return train_two_steps({.model = kind, .size = kSize, .recomputation = recomputation});
  };
  const Outcome none = run({});
  const Outcome selective = run({.kind = Recomputation::Kind::selective});
  const Outcome all = run({.kind = Recomputation::Kind::all});
  CHECK(selective.loss == none.loss);
  CHECK(all.loss == none.loss);
  CHECK(all.peak.sum() < selective.peak.sum());
  CHECK(selective.peak.sum() < none.peak.sum());
  CHECK(run({.kind = Recomputation::Kind::layers, .layers = 3}).kept == 1);
}

TEST_CASE("the bench train tells its peak by kind", "[cli][train][memory]") {
  const auto rows = test::json_of({"run", "--bench", "train", "--set", "steps=2", "layers=1",
                                   "cubes=1", "pes=1", "--json", "-"})["rows"];
  for (const auto& row : rows) {
    std::int64_t sum = 0;
    for (const char* kind : {"parameter", "optimizer_state", "gradient", "activation", "other"}) {
      sum += row["peak_" + std::string(kind) + "_bytes"].get<std::int64_t>();
    }
    CHECK(sum == row["hbm_peak_bytes"].get<std::int64_t>());
  }
  CHECK(rows[1]["peak_optimizer_state_bytes"] == 2 * rows[1]["peak_parameter_bytes"].get<int>());
}

TEST_CASE("the bench train refuses checkpoints that there are not", "[cli][train][memory]") {
  const auto error = [](const std::string& value) {
    return test::run_program({"run", "--bench", "train", "--set", "checkpoint=" + value}).err;
  };
  CHECK_THAT(error("some"), Catch::Contains("KB-U012") && Catch::Contains("budget:64MiB"));
  CHECK_THAT(error("budget:few"), Catch::Contains("KB-U012"));
  CHECK_THAT(error("99"), Catch::Contains("KB-U012") && Catch::Contains("=99: the model has"));
  // Before the run, so no rank has failed.
  CHECK_THAT(error("budget:1KiB"),
             Catch::StartsWith("kernbench: error: [KB-A033] choose_kept_layers: 2 layers") &&
                 Catch::Contains("B more than"));
}

}  // namespace
}  // namespace kernbench::benches
