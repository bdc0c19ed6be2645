// The test cases of Catch2 executables, run a batch at a time.

#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace kernbench::runner {

// The cases of one executable that one process is asked to run.
struct Batch {
  std::filesystem::path executable;
  std::vector<std::string> cases;
};

// How one case ended.
struct Outcome {
  bool passed = false;
  double seconds = 0;
  std::string text;  // the text to print for a failure
};

// Seconds that each case took in an earlier run, by its name; a case that is missing counts as
// short.
using Durations = std::map<std::string, double>;

// The executable's cases, in the order in which they are declared.  With `tag`, those that it
// selects ("[tag]", "~[tag]").  Hidden cases are never among them.
// Throws std::runtime_error if the executable cannot list them.
std::vector<std::string> list_cases(const std::filesystem::path& executable,
                                    const std::string& tag = "");

// Divides the cases with `tag`, or all, into batches, the longest first.  A case tagged [process]
// has a batch of its own.  `batch_seconds` is about how long a batch takes.
std::vector<Batch> cut_into_batches(const std::vector<std::filesystem::path>& executables,
                                    const Durations& durations, double batch_seconds,
                                    const std::string& tag = "");

// The name as a test specification of Catch2 that selects this case alone.
std::string specification(const std::string& name);

}  // namespace kernbench::runner
