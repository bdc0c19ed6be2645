#include "benches/outputs.h"

#include <fmt/format.h>

#include <filesystem>

#include "sim_engine/base/error.h"

namespace kernbench::benches {

namespace fs = std::filesystem;

namespace {

// "trace.json", 2 -> "trace-2.json"
std::string numbered(const fs::path& path, std::size_t number) {
  const std::string name =
      fmt::format("{}-{}{}", path.stem().string(), number, path.extension().string());
  return (path.parent_path() / name).string();
}

}  // namespace

Outputs::Outputs(const RunArguments& arguments) : folder_(arguments.output_folder) {
  const bool clash =
      (arguments.json == "-") + (arguments.csv == "-") + (arguments.trace == "-") > 1;
  if (clash) throw UsageError("KB-U001", "only one of --json, --csv and --trace may be -");
  if (!folder_.empty()) {
    create_output_folder(folder_);
    json_.emplace_back((fs::path(folder_) / "report.json").string());
    csv_.emplace_back((fs::path(folder_) / "report.csv").string());
  }
  if (!arguments.json.empty()) json_.emplace_back(arguments.json);
  if (!arguments.csv.empty()) csv_.emplace_back(arguments.csv);
  if (!arguments.trace.empty()) trace_.emplace(arguments.trace);
}

bool Outputs::uses_stdout() const {
  const auto is_stdout = [](const OutputFile& file) { return file.name() == "-"; };
  return std::ranges::any_of(json_, is_stdout) || std::ranges::any_of(csv_, is_stdout) ||
         (trace_ && is_stdout(*trace_));
}

void Outputs::write_traces(const std::vector<std::string>& traces, Report& report) {
  if (!trace_ || traces.empty()) return;
  for (std::size_t i = 1; i < traces.size(); ++i) {
    OutputFile next(numbered(trace_->name(), i + 1));
    next.commit(traces[i]);
    report.artifacts.push_back(next.name());
  }
  trace_->commit(traces.front());
  report.artifacts.insert(report.artifacts.begin(), trace_->name());
  trace_.reset();
}

void Outputs::write_artifacts(const Bench& bench, Report& report) {
  write_traces(bench.traces(), report);
  for (const Bench::Artifact& artifact : bench.artifacts()) {
    OutputFile file((fs::path(folder_) / artifact.name).string());
    file.commit(artifact.content);
    report.artifacts.push_back(file.name());
  }
}

void Outputs::write_report(const Report& report) {
  for (OutputFile& file : json_) file.commit(to_json(report));
  for (OutputFile& file : csv_) file.commit(to_csv(report.rows));
}

}  // namespace kernbench::benches
