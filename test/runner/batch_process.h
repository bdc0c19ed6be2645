// A process that runs one batch, and what it leaves behind.

#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "test/runner/cases.h"

namespace kernbench::runner {

// Starts the executable on the batch's cases.  The reporter of test/support/case_reporter.cpp
// writes what failed into `stem`.xml and a line for each case that begins or ends into `stem`.log;
// standard output and error go into `stem`.out.
class BatchProcess {
 public:
  // Throws std::runtime_error if no process can be started.
  BatchProcess(Batch batch, std::filesystem::path stem);

  const Batch& batch() const { return batch_; }
  const std::filesystem::path& stem() const { return stem_; }

  // True once the process has ended, by itself or because one case took longer than `limit`.
  bool has_ended(std::chrono::seconds limit);

  // The cases that have ended, without the text of a failure.
  const std::map<std::string, Outcome>& outcomes() const { return outcomes_; }
  // The case that began last; empty if none has.
  const std::string& last_case() const { return last_case_; }
  // The cases that never began.
  std::vector<std::string> missed_cases() const;
  // "signal 11", "exit code 3", "no end within 300 s"; empty if the process ended well, with or
  // without failed assertions.
  const std::string& failure() const { return failure_; }
  std::string output() const;

 private:
  void read_log();
  bool has_failed_case() const;

  Batch batch_;
  std::filesystem::path stem_;
  pid_t pid_ = -1;
  std::chrono::steady_clock::time_point last_begin_;
  std::chrono::steady_clock::time_point next_look_;
  std::map<std::string, Outcome> outcomes_;
  std::string last_case_;
  std::string failure_;
};

}  // namespace kernbench::runner
