// Runs batches in parallel, and gathers how each case ended.

#pragma once

#include <chrono>
#include <filesystem>
#include <vector>

#include "test/runner/cases.h"
#include "test/runner/junit.h"

namespace kernbench::runner {

struct RunOptions {
  int jobs = 2;
  std::chrono::seconds limit{300};  // of one case
  std::filesystem::path folder;     // for what the processes leave behind; it exists
  std::string tag;                  // cases with this tag alone; empty: all
};

// Runs all cases of the executables; a failure is printed when it happens.  A process that dies
// fails the case that it was running, and the cases behind it run in another process. Throws
// std::runtime_error if an executable cannot be run.
std::vector<Suite> run_cases(const std::vector<std::filesystem::path>& executables,
                             const RunOptions& options);

}  // namespace kernbench::runner
