// `kernbench run --uncertain`.

#pragma once

#include "benches/bench/bench.h"
#include "benches/bench/process_team.h"
#include "benches/cli/cli.h"

namespace kernbench::benches::cli {

// Throws UsageError KB-U012 if an option is given that has no effect without --uncertain.
void check_uncertain(const RunArguments& arguments);

// Runs a bench as it is, and with values drawn from ranges.  REQUIRES: ranges are given
int run_uncertain(const BenchInfo& info, const RunArguments& arguments, ProcessTeam* team);

}  // namespace kernbench::benches::cli
