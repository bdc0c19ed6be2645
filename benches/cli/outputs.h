// The result files of a run: opened before it starts, written when it has ended.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "benches/bench/bench_run.h"
#include "benches/bench/output_file.h"
#include "benches/cli/cli.h"

namespace kernbench::benches::cli {

class Outputs {
 public:
  // Throws IoError KB-I010 if a file cannot be created, UsageError KB-U001 if two results have the
  // same file, or both go to stdout.
  explicit Outputs(const RunArguments& arguments);

  // Writes traces and the bench's files, also of a run that failed, and enters their names in the
  // report.  Throws UsageError KB-U001 if one of them has the name of another result.
  void write_artifacts(const BenchRun& run, Report& report);

  // Writes the HTML page, if it is wanted, and enters its name in the report.
  void write_page(const std::string& page, Report& report);

  // Writes the traces of ranks into their folder, and enters their names in the report.  Removes
  // the files of further ranks that an earlier run has left there.
  void write_kineto(const std::vector<std::string>& traces, Report& report) const;

  // Writes JSON and CSV.  Returns the names of the files.
  std::vector<std::string> write_report(const Report& report);

  // True if a result file goes to stdout, so that text for people must not.
  bool uses_stdout() const;

 private:
  std::vector<const OutputFile*> all() const;
  void check_all_differ() const;
  void check_is_free(const OutputFile& added) const;
  void write_traces(const std::vector<std::string>& traces, Report& report);

  std::vector<OutputFile> json_;
  std::vector<OutputFile> csv_;
  std::optional<OutputFile> trace_;
  std::optional<OutputFile> page_;
  std::string kineto_folder_;
};

}  // namespace kernbench::benches::cli
