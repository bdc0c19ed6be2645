// The result files of a run: opened before it starts, written when it has ended.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "benches/bench.h"
#include "benches/cli.h"
#include "benches/output_file.h"

namespace kernbench::benches {

struct Report;

class Outputs {
 public:
  // Throws IoError KB-I010 for what cannot be created, UsageError KB-U001 if two are one file, or
  // want stdout.
  explicit Outputs(const RunArguments& arguments);

  // Traces and the bench's files; also of a run that failed.  Their names go into the report.
  // Throws UsageError KB-U001 if one of them has the name of another result.
  void write_artifacts(const Bench& bench, Report& report);

  // JSON and CSV.  Returns the names of the files.
  std::vector<std::string> write_report(const Report& report);

  // Whether stdout belongs to machines.
  bool uses_stdout() const;

 private:
  std::vector<const OutputFile*> all() const;
  void check_all_differ() const;
  void check_is_free(const OutputFile& added) const;
  void write_traces(const std::vector<std::string>& traces, Report& report);

  std::vector<OutputFile> json_;
  std::vector<OutputFile> csv_;
  std::optional<OutputFile> trace_;
};

}  // namespace kernbench::benches
