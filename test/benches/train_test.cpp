// The training of the bench `train` beside the same by the real torch (test/golden).

#include <catch2/catch.hpp>
#include <cmath>
#include <functional>

#include "benches/train/training.h"
#include "runtime/torch/run_ranks.h"
#include "runtime/torch/runtime_context.h"
#include "test/benches/program_json.h"
#include "test/support/small_topology.h"
#include "test/support/torch_training.h"

namespace kernbench::benches {
namespace {

using test::compute_spread;
using test::torch_steps;

// Trains as the only rank of a device with 2 cubes of 2 PEs.
void train_on_device(const train::TrainingOptions& options,
                     const std::function<void(train::Training&)>& body) {
  RuntimeContext torch(test::round_topology(SipTopology::ring_1d, 1, 1, 2, 1));
  torch.distributed.init_process_group("ahbm");
  run_ranks(torch, 1, [&](int) {
    train::Training training(torch, options);
    body(training);
  });
}

TEST_CASE("language models learn as with torch, loss by loss", "[train][exhaustive]") {
  const train::ModelKind kind = GENERATE(train::ModelKind::gpt, train::ModelKind::llama);
  const bool is_shared = GENERATE(false, true);  // by two PEs, of one cube or of two
  const std::string name(name_of(kind));
  const auto f32 = torch_steps(name);
  const auto f64 = torch_steps(name + "-f64");
  const double spread = compute_spread(f32, f64);
  const bool is_gpt = kind == train::ModelKind::gpt;
  train_on_device(
      {.model = kind,
       .on = {.cubes = is_shared && !is_gpt ? 2 : 1, .pes = is_shared && is_gpt ? 2 : 1}},
      [&](train::Training& training) {
        for (std::size_t i = 0; i < f32.size(); ++i) {
          const train::TrainingStep step = training.step();
          INFO(name << " step " << i);
          if (i < 10) CHECK(std::abs(step.loss - f64[i].loss) <= 2e-6 * f64[i].loss);
          CHECK(std::abs(step.loss - f64[i].loss) <= 3 * spread);
          CHECK(step.time > Time{0});
        }
      });
}

// Torch's own runs in these types are as far from its f64 one as rounding takes them.
TEST_CASE("language models learn in f16 and bf16 as with torch", "[train]") {
  const DType dtype = GENERATE(DType::f16, DType::bf16);
  const auto rounded = torch_steps("gpt-" + std::string(name_of(dtype)));
  const auto f64 = torch_steps("gpt-f64");
  const double spread = compute_spread(rounded, f64);
  train_on_device({.dtype = dtype}, [&](train::Training& training) {
    for (std::size_t i = 0; i < f64.size(); ++i) {
      INFO(name_of(dtype) << " step " << i << ", torch's " << rounded[i].loss);
      CHECK(std::abs(training.step().loss - f64[i].loss) <= 3 * spread);
    }
  });
}

TEST_CASE("a compiled model learns the same numbers in less time", "[train]") {
  const train::ModelKind kind = GENERATE(train::ModelKind::gpt, train::ModelKind::llama);
  const DType dtype = GENERATE(DType::f32, DType::f16);
  const auto steps = [&](bool compile) {
    std::vector<train::TrainingStep> done;
    train_on_device({.model = kind, .compile = compile, .dtype = dtype},
                    [&](train::Training& training) {
                      for (int i = 0; i < 3; ++i) done.push_back(training.step());
                    });
    return done;
  };
  const auto eager = steps(false);
  const auto compiled = steps(true);
  for (std::size_t i = 0; i < eager.size(); ++i) {
    INFO(name_of(kind) << " " << name_of(dtype) << " step " << i);
    CHECK(compiled[i].loss == eager[i].loss);
    CHECK(compiled[i].norm == eager[i].norm);
    if (kind == train::ModelKind::llama) CHECK(compiled[i].time < eager[i].time);
  }
}

TEST_CASE("a llama learns in f16 and bf16", "[train]") {
  const DType dtype = GENERATE(DType::f16, DType::bf16);
  train_on_device({.model = train::ModelKind::llama, .dtype = dtype},
                  [&](train::Training& training) {
                    const double first = training.step().loss;
                    double last = 0;
                    for (int i = 0; i < 19; ++i) last = training.step().loss;
                    CHECK(last < first - 0.5);
                  });
}

// 16,384 weights of linear layers, 32 tokens, and scores of 16 x 16 / 2 for each of two samples.
TEST_CASE("the bench train gives the share of a SIP's peak, with or without values",
          "[cli][train]") {
  const bool has_values = GENERATE(true, false);
  const auto rows =
      test::json_of({"run", "--bench", "train", "--set", "steps=2", "layers=1", "pes=2",
                     has_values ? "values=true" : "values=false", "--json", "-"})["rows"];
  REQUIRE(rows.size() == 2);
  const double flops = 6.0 * 16384 * 32 + 12.0 * 2 * 16 * 16 / 2 * 32;
  const double peak = 128 * 2.0 * 32 * 32 * 1.5e9;
  for (const auto& row : rows) {
    CHECK(row["mfu"].get<double>() == Approx(flops / (row["time_ns"].get<double>() * 1e-9) / peak));
    CHECK(row["loss"].is_null() == !has_values);
    CHECK(row["grad_norm"].is_null() == !has_values);
  }
}

}  // namespace
}  // namespace kernbench::benches
