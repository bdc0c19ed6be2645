// The commands of the program.  Each returns the exit code, or throws.

#pragma once

#include "benches/bench/bench.h"
#include "benches/bench/process_team.h"
#include "benches/cli/cli.h"

namespace kernbench::benches::cli {

int list(const ListArguments& arguments);
int keys(const KeysArguments& arguments);
int draw(const DrawArguments& arguments);
int errors(const ErrorsArguments& arguments);
// Runs a bench by name.  `team`: the processes that share its points; null: this process alone.
int run(const RunArguments& arguments, ProcessTeam* team);
// Runs a bench that need not be registered.
int run(const BenchInfo& info, const RunArguments& arguments, ProcessTeam* team);
int whatif(const WhatIfArguments& arguments, ProcessTeam* team);
// Runs the bench `plan`.
int plan(const PlanArguments& arguments, ProcessTeam* team);
int calibrate(const CalibrateArguments& arguments);
int compare(const CompareArguments& arguments, ProcessTeam* team);
int bench(const OperatorArguments& arguments, ProcessTeam* team);
int probe(const ProbePathArguments& arguments);
int probe(const ProbeBoundArguments& arguments);
int probe(const ProbeChooseArguments& arguments);
int probe(const ProbeOrderArguments& arguments);
int probe(const ProbeGemmArguments& arguments);

}  // namespace kernbench::benches::cli
