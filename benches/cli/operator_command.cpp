// `kernbench bench`.

#include <fmt/format.h>

#include "benches/cli/commands.h"
#include "benches/operators/operator_bench.h"
#include "benches/operators/operator_cases.h"
#include "sim_engine/base/error.h"

namespace kernbench::benches {

int bench(const OperatorArguments& arguments, ProcessTeam* team) {
  const std::string_view name = operators::operator_cases().find(arguments.operator_case)->name();
  operators::parse_dtypes("--dtype", arguments.dtype);
  const BenchInfo info = operators::bench_of(name);
  RunArguments wanted;
  wanted.bench = info.name;
  wanted.topology = arguments.topology;
  wanted.settings = {
      fmt::format("dtype={}", arguments.dtype), fmt::format("save_path={}", arguments.save_path),
      fmt::format("plot={}", arguments.plot), fmt::format("profile={}", arguments.profile)};
  wanted.explain = arguments.explain;
  wanted.seed = arguments.seed;
  wanted.shuffle_ties = arguments.shuffle_ties;
  wanted.jobs = arguments.jobs;
  return run(info, wanted, team);
}

}  // namespace kernbench::benches
