// kernbench_run_tests: runs the cases of Catch2 executables in few processes, and writes one JUnit
// file (--help).
//
// Prints what fails, and last a line for each executable and "N passed, M failed".  Exits with 1 if
// a case failed, with 2 if an executable cannot be run, and with CLI11's code if the command line
// is wrong.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <exception>
#include <filesystem>
#include <vector>

#include "test/runner/run.h"

namespace kernbench::runner {

namespace {

int run(int argc, char** argv) {
  CLI::App app("Runs the cases of Catch2 executables in few processes, and writes one JUnit file.",
               "kernbench_run_tests");
  RunOptions options;
  std::vector<std::filesystem::path> executables;
  int limit_s = static_cast<int>(options.limit.count());
  app.add_option("--jobs", options.jobs, "processes at a time")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--limit", limit_s, "seconds that a case may take")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--tag", options.tag, "the cases that this selects: [tag], ~[tag]; else all");
  app.add_option("--folder", options.folder, "where junit.xml and durations.txt go")->required();
  app.add_option("EXECUTABLE", executables)->required()->check(CLI::ExistingFile);
  CLI11_PARSE(app, argc, argv);
  options.limit = std::chrono::seconds(limit_s);
  std::filesystem::create_directories(options.folder);
  const std::vector<Suite> suites = run_cases(executables, options);
  write_junit(suites, options.folder / "junit.xml");
  int passed = 0;
  int failed = 0;
  for (const Suite& suite : suites) {
    const int failures = suite.failure_count();
    fmt::print("{:32} {:5} passed {:4} failed {:8.1f} s\n", suite.name,
               std::ssize(suite.cases) - failures, failures, suite.seconds());
    passed += static_cast<int>(std::ssize(suite.cases)) - failures;
    failed += failures;
  }
  fmt::print("{} passed, {} failed\n", passed, failed);
  return failed == 0 ? 0 : 1;
}

}  // namespace

}  // namespace kernbench::runner

int main(int argc, char** argv) {
  try {
    return kernbench::runner::run(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "kernbench_run_tests: {}\n", error.what());
    return 2;
  }
}
