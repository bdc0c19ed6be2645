#include "benches/cli/outputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "benches/bench/report.h"
#include "runtime/profiler/kineto.h"
#include "sim_engine/base/error.h"
#include "sim_engine/base/visible_text.h"

namespace kernbench::benches::cli {

namespace fs = std::filesystem;

namespace {

// "trace.json", 2 -> "trace-2.json"
std::string numbered(const fs::path& path, std::size_t number) {
  const std::string name =
      fmt::format("{}-{}{}", path.stem().string(), number, path.extension().string());
  return (path.parent_path() / name).string();
}

}  // namespace

Outputs::Outputs(const RunArguments& arguments) {
  if (const fs::path folder = arguments.output_folder; !folder.empty()) {
    create_output_folder(folder);
    json_.emplace_back((folder / "report.json").string());
    csv_.emplace_back((folder / "report.csv").string());
  }
  if (!arguments.json.empty()) json_.emplace_back(arguments.json);
  if (!arguments.csv.empty()) csv_.emplace_back(arguments.csv);
  if (!arguments.trace.empty()) trace_.emplace(arguments.trace);
  if (!arguments.report.empty()) page_.emplace(arguments.report);
  kineto_folder_ = arguments.kineto;
  if (!kineto_folder_.empty()) create_output_folder(kineto_folder_);
  check_all_differ();
}

std::vector<const OutputFile*> Outputs::all() const {
  std::vector<const OutputFile*> files;
  for (const OutputFile& file : json_) files.push_back(&file);
  for (const OutputFile& file : csv_) files.push_back(&file);
  if (trace_) files.push_back(&*trace_);
  if (page_) files.push_back(&*page_);
  return files;
}

// Refuses two results in the same file: the last one written would replace the other.
void Outputs::check_all_differ() const {
  std::map<fs::path, std::string> names;
  for (const OutputFile* file : all()) {
    if (file->name() == "-" && names.contains("-")) {
      throw UsageError("KB-U001", "only one of --json, --csv, --trace and --report may be -");
    }
    const fs::path key = file->name() == "-" ? fs::path("-") : file->regular_file();
    if (key.empty()) continue;  // a device or a pipe takes any number of texts
    const auto [known, is_new] = names.emplace(key, file->name());
    if (is_new) continue;
    throw UsageError("KB-U001",
                     "two results are to be written to '{}'{}: give --json, --csv, --trace, "
                     "--report and --out names that differ",
                     visible(file->name()),
                     known->second == file->name()
                         ? ""
                         : fmt::format(", which is '{}' too", visible(known->second)));
  }
}

// Refuses another file that has the name of one of them.
void Outputs::check_is_free(const OutputFile& added) const {
  for (const OutputFile* file : all()) {
    if (added.regular_file().empty() || file->regular_file() != added.regular_file()) continue;
    throw UsageError("KB-U001",
                     "'{}' is also the name of a file that the bench writes; give another one",
                     visible(file->name()));
  }
}

bool Outputs::uses_stdout() const {
  const auto is_stdout = [](const OutputFile& file) { return file.name() == "-"; };
  return std::ranges::any_of(json_, is_stdout) || std::ranges::any_of(csv_, is_stdout) ||
         (trace_ && is_stdout(*trace_)) || (page_ && is_stdout(*page_));
}

void Outputs::write_traces(const std::vector<std::string>& traces, Report& report) {
  if (!trace_ || traces.empty()) return;
  for (std::size_t i = 1; i < traces.size(); ++i) {
    OutputFile next(numbered(trace_->name(), i + 1));
    check_is_free(next);
    next.commit(traces[i]);
    report.artifacts.push_back(next.name());
  }
  trace_->commit(traces.front());
  report.artifacts.insert(report.artifacts.begin(), trace_->name());
  trace_.reset();
}

void Outputs::write_artifacts(const BenchRun& run, Report& report) {
  write_traces(run.contexts.traces(), report);
  for (const Artifact& artifact : run.artifacts()) {
    const fs::path path = run.output_folder / artifact.name;
    create_output_folder(path.parent_path());
    OutputFile file(path.string());
    check_is_free(file);
    file.commit(artifact.content);
    report.artifacts.push_back(file.name());
  }
  std::error_code ignored;  // usually there is no such file
  for (const std::string& name : run.dropped_artifacts()) {
    fs::remove(run.output_folder / name, ignored);
  }
}

void Outputs::write_page(const std::string& page, Report& report) {
  if (!page_ || page.empty()) return;
  page_->commit(page);
  if (page_->name() != "-") report.artifacts.push_back(page_->name());
  page_.reset();
}

void Outputs::write_kineto(const std::vector<std::string>& traces, Report& report) const {
  for (std::size_t i = 0; i < traces.size(); ++i) {
    OutputFile file((fs::path(kineto_folder_) / runtime::kineto_file_name(i)).string());
    check_is_free(file);
    file.commit(traces[i]);
    report.artifacts.push_back(file.name());
  }
  runtime::remove_stale_kineto_files(kineto_folder_, traces.size());
}

std::vector<std::string> Outputs::write_report(const Report& report) {
  std::vector<std::string> names;
  const auto write = [&](std::vector<OutputFile>& files, const std::string& text) {
    for (OutputFile& file : files) {
      file.commit(text);
      if (file.name() != "-") names.push_back(file.name());
    }
  };
  write(json_, to_json(report));
  write(csv_, to_csv(report.rows));
  return names;
}

}  // namespace kernbench::benches::cli
