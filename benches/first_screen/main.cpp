// ./run.sh runs this program first: it does `kernbench run --bench ccl-allreduce --topology
// topologies/default.yaml` and is built of the rooms that this needs, and of no others (ADR-0170).

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <exception>

#include "benches/bench/bench_run.h"
#include "benches/bench/console.h"
#include "benches/bench/head_and_foot.h"
#include "benches/bench/inputs.h"
#include "benches/collectives/collectives.h"
#include "ccl/backend/ahbm_backend.h"
#include "runtime/guards/failure.h"
#include "sim_engine/base/error.h"

namespace kernbench::benches::first_screen {

namespace {

constexpr const char* kTopology = "topologies/default.yaml";

int show(Console& console) {
  const BenchInfo info = collectives::ccl_allreduce_bench();
  BenchRun run({.topology = load_topology(kTopology), .ccl = load_ccl("")},
               Settings(info.settings, {}), console);
  run.configure(info);
  console.begin_with(head(info, run, {}));
  const auto start = std::chrono::steady_clock::now();
  Bench bench(run);
  info.run(bench);
  run.check_contract(info.name);
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - start;
  console.print(foot(make_report(info, run, {}, wall.count())));
  console.finish();
  if (run.ok()) return static_cast<int>(ExitCode::ok);
  Console(STDERR_FILENO).print(run.describe_failed());
  return static_cast<int>(ExitCode::worker_failed);
}

int main() {
  try {
    ccl::register_ahbm_backend();
    Console console(STDOUT_FILENO);
    return show(console);
  } catch (...) {
    const runtime::Failure failure =
        runtime::describe_failure(std::current_exception(), "kernbench_first_screen");
    Console console(STDERR_FILENO);
    console.print(fmt::format("kernbench: {} {}\n", console.alarming("error:"), failure.text));
    return static_cast<int>(failure.exit_code);
  }
}

}  // namespace

}  // namespace kernbench::benches::first_screen

int main() {
  return kernbench::benches::first_screen::main();
}
