#include "runtime/testing/explore.h"

#include <fmt/format.h>

#include <utility>

#include "runtime/simulation/simulation.h"
#include "runtime/tensor/tensor_storage.h"
#include "runtime/testing/explored_runs.h"
#include "runtime/testing/hash.h"
#include "runtime/torch/internals.h"
#include "sim_engine/base/error.h"

namespace kernbench::testing {

namespace {

void check_explore_options(const ExploreOptions& options) {
  check_positive("ExploreOptions::runs", options.runs);
  check_positive("ExploreOptions::depth", options.depth);
  check_positive("ExploreOptions::deepest", options.deepest);
  check_positive("ExploreOptions::slowest_percent", options.slowest_percent);
  const int vary = static_cast<int>(options.vary);
  check_positive("ExploreOptions::vary", vary);
  if ((vary & ~static_cast<int>(kVaryAll)) != 0) {
    throw UsageError("KB-U031", "ExploreOptions::vary is {}; it must be a sum of kinds of Vary",
                     vary);
  }
}

}  // namespace

ExploreReport explore_program(const ExploreOptions& options, const Program& program,
                              const ExploredTest& test) {
  constexpr int kRepeatOneIn = 16;  // runs, to find programs that depend on more than the schedule
  check_explore_options(options);
  ExploredRuns runs(options, program, test);
  runs.run_usual();
  if (runs.replay()) return runs.report;
  runs.report.runs = 1;
  for (int run = 1; run < options.runs; ++run) {
    const std::uint64_t seed = hash_of(options.seed, static_cast<std::uint64_t>(run));
    const Outcome outcome =
        runs.run(std::make_shared<RunChoices>(options, runs.usual().choices->size(), seed));
    runs.check(outcome);
    if (run % kRepeatOneIn == 0) {
      runs.check(runs.run(outcome.choices->taken()));
      --runs.report.runs;
    }
  }
  runs.check_sometimes();
  return runs.report;
}

std::string ExploreReport::text() const {
  const std::string schedules = fmt::format("{} schedule{}", runs, runs == 1 ? "" : "s");
  if (is_complete) return "all " + schedules;
  if (call == kExhaustive) return fmt::format("the first {}, not all", schedules);
  return fmt::format("{}, {} to {}", schedules, to_string(least), to_string(most));
}

namespace {

void observe_in(runtime::Simulation& simulation, std::string_view name,
                std::span<const float> elements) {
  if (simulation.choices() == nullptr) return;
  simulation.choices()->observes(simulation.local().rank, name, elements);
}

}  // namespace

void observe(const RuntimeContext& torch, std::string_view name, const Tensor& tensor) {
  runtime::Simulation& simulation = simulation_of(torch);
  if (simulation.choices() != nullptr) observe_in(simulation, name, tensor.to_vector());
}

void observe(const Tensor& tensor, std::string_view name, std::span<const float> elements) {
  if (!tensor.is_host()) observe_in(*tensor.storage()->simulation, name, elements);
}

void wait_for_start(const RuntimeContext& torch) {
  runtime::Simulation& simulation = simulation_of(torch);
  if (simulation.choices() == nullptr) return;
  simulation.sleep(
      simulation.choices()->start_of(simulation.local().rank),
      [] { return std::string("its start, which is late in this schedule"); }, sim::Cause::host);
}

}  // namespace kernbench::testing
