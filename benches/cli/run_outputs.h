// What a run leaves behind: tables and texts on the console, files, pictures.  Each is a row of one
// list (run_outputs.cpp), which says when it is wanted, what must hold before the simulation, and
// how it is written.

#pragma once

#include <string>

#include "benches/bench/bench_run.h"
#include "benches/bench/report.h"
#include "benches/cli/outputs.h"
#include "benches/cli/perform.h"
#include "runtime/profiler/profile.h"

namespace kernbench::benches::cli {

// A run whose simulations have ended.
struct EndedRun {
  const RunArguments& arguments;
  const Work& work;
  const BenchRun& run;
  Outputs& files;
  const std::string& explanation;  // of add_to()
};

// Throws UsageError if an output that is wanted lacks what it needs.
void check_outputs(const RunArguments& arguments);

// True if an output needs what a profiled simulation records.
bool needs_profile(const RunArguments& arguments);

// The time that --explain, --summary and --report speak of.
runtime::ProfiledTime profiled_time(const RunArguments& arguments);

// Adds to a bench what is made while its systems are there: figures of its rows, and, in the
// process that leads, the explanation that it returns.
std::string add_to(Bench& bench, const RunArguments& arguments, const Work& work, bool leads);

// Writes what is wanted, in the order of the list, and returns the report with the names of files.
Report write_outputs(const EndedRun& ended, Report report);

// Writes what is known of a failed run: its trace, its foot, and the rows that it has.
// Errors of writing are ignored, since the run's own error matters more.
void keep_the_finished(Report report, const BenchRun& run, Outputs& outputs) noexcept;

// Writes the rows of an interrupted run that is still going on.
void keep_finished_rows(Report report, Outputs& outputs);

}  // namespace kernbench::benches::cli
