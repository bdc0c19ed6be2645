#include "test/runner/run.h"

#include <fmt/format.h>

#include <fstream>
#include <list>
#include <thread>
#include <utility>

#include "test/runner/batch_process.h"

namespace kernbench::runner {

namespace {

namespace fs = std::filesystem;

constexpr double kBatchSeconds = 2;

Durations read_durations(const fs::path& file) {
  Durations durations;
  std::ifstream stream(file);
  double seconds = 0;
  for (std::string name; stream >> seconds && std::getline(stream.ignore(), name);) {
    durations[name] = seconds;
  }
  return durations;
}

void write_durations(const std::vector<Suite>& suites, const fs::path& file) {
  Durations durations = read_durations(file);
  for (const Suite& suite : suites) {
    for (const auto& [name, outcome] : suite.outcomes) durations[name] = outcome.seconds;
  }
  std::ofstream stream(file);
  for (const auto& [name, seconds] : durations) stream << fmt::format("{:.3f} {}\n", seconds, name);
}

// The last lines of what a process printed.
std::string tail(const std::string& text) {
  constexpr std::size_t kMost = 4000;
  return text.size() <= kMost ? text : "..." + text.substr(text.size() - kMost);
}

class Run {
 public:
  Run(const std::vector<fs::path>& executables, const RunOptions& options) : options_(options) {
    for (const fs::path& executable : executables) {
      Suite& suite = suites_.emplace_back();
      suite.name = executable.filename().string();
      suite.cases = list_cases(executable, options.tag);
      index_[executable] = suites_.size() - 1;
    }
    for (Batch& batch : cut_into_batches(executables, read_durations(durations_file()),
                                         kBatchSeconds, options.tag)) {
      waiting_.push_back(std::move(batch));
    }
  }

  std::vector<Suite> finish() && {
    while (!waiting_.empty() || !running_.empty()) step();
    write_durations(suites_, durations_file());
    return std::move(suites_);
  }

 private:
  fs::path durations_file() const { return options_.folder / "durations.txt"; }

  void step() {
    while (!waiting_.empty() && std::ssize(running_) < options_.jobs) {
      running_.emplace_back(std::move(waiting_.front()),
                            options_.folder / fmt::format("batch_{}", batch_count_++));
      waiting_.pop_front();
    }
    for (auto process = running_.begin(); process != running_.end();) {
      if (process->has_ended(options_.limit)) {
        take(*process);
        process = running_.erase(process);
      } else {
        ++process;
      }
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }

  void take(const BatchProcess& process) {
    Suite& suite = suites_[index_.at(process.batch().executable)];
    std::map<std::string, Outcome> outcomes = process.outcomes();
    const std::map<std::string, std::string> failures =
        failures_of(process.stem().string() + ".xml", process.batch().cases);
    for (auto& [name, outcome] : outcomes) {
      if (outcome.passed) continue;
      const auto failure = failures.find(name);
      outcome.text = failure == failures.end() ? element("failed; the process printed", process)
                                               : failure->second;
    }
    if (!process.failure().empty()) blame(process, outcomes);
    for (const auto& [name, outcome] : outcomes) record(suite, name, outcome);
  }

  // If a process has died, fails the case that began last; the cases behind it get another process.
  void blame(const BatchProcess& process, std::map<std::string, Outcome>& outcomes) {
    if (process.last_case().empty()) {
      for (const std::string& name : process.batch().cases) {
        outcomes[name] = {false, 0, element("did not begin: " + process.failure(), process)};
      }
      return;
    }
    Outcome& outcome = outcomes[process.last_case()];
    outcome.passed = false;
    outcome.text = element(process.failure(), process);
    std::vector<std::string> missed = process.missed_cases();
    if (!missed.empty()) waiting_.push_front({process.batch().executable, std::move(missed)});
  }

  static std::string element(const std::string& what, const BatchProcess& process) {
    return fmt::format("      <error message=\"{}\">\n{}\n      </error>\n", escaped(what),
                       escaped(tail(process.output())));
  }

  static void record(Suite& suite, const std::string& name, const Outcome& outcome) {
    if (!outcome.passed) fmt::print("{}: {}: FAILED\n{}", suite.name, name, outcome.text);
    std::fflush(stdout);
    suite.outcomes[name] = outcome;
  }

  const RunOptions& options_;
  std::vector<Suite> suites_;
  std::map<fs::path, std::size_t> index_;
  std::list<Batch> waiting_;
  std::list<BatchProcess> running_;
  int batch_count_ = 0;
};

}  // namespace

std::vector<Suite> run_cases(const std::vector<fs::path>& executables, const RunOptions& options) {
  return Run(executables, options).finish();
}

}  // namespace kernbench::runner
