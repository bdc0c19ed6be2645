#include "test/runner/cases.h"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <set>
#include <stdexcept>
#include <string_view>

namespace kernbench::runner {

namespace {

namespace fs = std::filesystem;

constexpr double kShort = 0.02;         // seconds, for a case without a time from an earlier run
constexpr std::size_t kMostCases = 60;  // a crash costs a start for the rest of its batch

std::string quoted(const std::string& text) {
  std::string result = "'";
  for (const char c : text) result += c == '\'' ? "'\\''" : std::string(1, c);
  return result + "'";
}

double seconds_of(const std::string& name, const Durations& durations) {
  const auto found = durations.find(name);
  return found == durations.end() ? kShort : found->second;
}

struct TimedBatch {
  Batch batch;
  double seconds = 0;
};

// Batches of one executable, each filled up in the order of declaration.
void add_batches(std::vector<TimedBatch>& batches, const fs::path& executable,
                 const Durations& durations, double batch_seconds, const std::string& tag) {
  const std::vector<std::string> alone = list_cases(executable, "[process]");
  const std::set<std::string> has_process(alone.begin(), alone.end());
  TimedBatch shared{{executable, {}}, 0};
  const auto finish = [&](TimedBatch& batch) {
    if (!batch.batch.cases.empty()) batches.push_back(std::move(batch));
    batch = {{executable, {}}, 0};
  };
  for (const std::string& name : list_cases(executable, tag)) {
    const double seconds = seconds_of(name, durations);
    if (has_process.contains(name)) {
      batches.push_back({{executable, {name}}, seconds});
      continue;
    }
    shared.batch.cases.push_back(name);
    shared.seconds += seconds;
    if (shared.seconds >= batch_seconds || shared.batch.cases.size() >= kMostCases) finish(shared);
  }
  finish(shared);
}

}  // namespace

std::vector<std::string> list_cases(const fs::path& executable, const std::string& tag) {
  std::string command = quoted(executable.string()) + " --list-test-names-only";
  // Catch2 selects hidden cases too where a specification only excludes.
  if (!tag.empty()) command += " " + quoted(tag + "~[.]");
  FILE* const stream = popen(command.c_str(), "r");
  if (stream == nullptr) throw std::runtime_error("cannot run " + command);
  std::vector<std::string> names;
  std::string line;
  for (int c = std::fgetc(stream); c != EOF; c = std::fgetc(stream)) {
    if (c != '\n') {
      line += static_cast<char>(c);
    } else if (!line.empty()) {
      names.push_back(std::move(line));
      line.clear();
    }
  }
  // Catch2 exits with the number of names, so another exit code means that the list is incomplete.
  const int status = pclose(stream);
  const int listed = static_cast<int>(std::min<std::size_t>(names.size(), 255));
  if (!WIFEXITED(status) || WEXITSTATUS(status) != listed || (names.empty() && tag.empty())) {
    throw std::runtime_error(executable.string() + " does not list its test cases");
  }
  return names;
}

std::vector<Batch> cut_into_batches(const std::vector<fs::path>& executables,
                                    const Durations& durations, double batch_seconds,
                                    const std::string& tag) {
  std::vector<TimedBatch> timed;
  for (const fs::path& executable : executables) {
    add_batches(timed, executable, durations, batch_seconds, tag);
  }
  std::ranges::stable_sort(timed, std::ranges::greater(), &TimedBatch::seconds);
  std::vector<Batch> batches;
  for (TimedBatch& one : timed) batches.push_back(std::move(one.batch));
  return batches;
}

std::string specification(const std::string& name) {
  std::string text = "\"";
  for (const char c : name) {
    if (std::string_view("\\,\"[").find(c) != std::string_view::npos) text += '\\';
    text += c;
  }
  return text + "\"";
}

}  // namespace kernbench::runner
