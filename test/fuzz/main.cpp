// kernbench_fuzz: runs the parsers of user's bytes on mutated inputs (--help).
//
// Prints a line for each parser, and for each failure the file with the input and the command that
// runs it alone.  Exits with 1 if something failed, and with what CLI11 says if the command line is
// wrong.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <exception>
#include <string>
#include <vector>

#include "test/fuzz/campaign.h"

namespace kernbench::fuzz {

namespace {

struct Options {
  std::vector<std::string> parsers;
  std::vector<std::string> files;
  CampaignOptions campaign;
};

std::string joined_names() {
  std::string names;
  for (const Parser& parser : parsers()) {
    names += names.empty() ? "" : ", ";
    names += parser.name;
  }
  return names;
}

std::vector<const Parser*> wanted(const std::vector<std::string>& names) {
  std::vector<const Parser*> found;
  for (const Parser& parser : parsers()) {
    if (names.empty()) found.push_back(&parser);
  }
  for (const std::string& name : names) {
    const Parser* const parser = find_parser(name);
    if (parser == nullptr) {
      throw std::runtime_error(fmt::format("no parser '{}'; there are: {}", name, joined_names()));
    }
    found.push_back(parser);
  }
  return found;
}

// Each file by itself.
int run_files(const Parser& parser, const Options& options) {
  int failed = 0;
  for (const std::string& file : options.files) {
    const std::string input = read_bytes(file);
    const std::string failure = failure_of(parser, input, options.campaign.limit_s);
    if (!failure.empty()) {
      ++failed;
      fmt::print("{}: FAILED: {}\n", file, failure);
      continue;
    }
    const Verdict verdict = verdict_of(parser, input);
    const bool is_accepted = verdict.kind == Verdict::Kind::accepted;
    fmt::print("{}: {}\n", file, is_accepted ? "accepted" : verdict.text);
  }
  return failed;
}

int run_parser(const Parser& parser, const Options& options) {
  const CampaignResult result = run_campaign(parser, options.campaign);
  for (const Failure& failure : result.failures) {
    fmt::print("{}: run {} FAILED: {}\n  alone: kernbench_fuzz --parser {} {}\n", parser.name,
               failure.run, failure.text, parser.name, failure.file.string());
  }
  fmt::print("{:13} {:9} runs {:9} accepted {:5} kept {:6.1f} s, the slowest {:.3f} s: {}\n",
             parser.name, result.runs, result.accepted, result.kept, result.seconds,
             result.slowest_s, result.failures.empty() ? "passed" : "FAILED");
  std::fflush(stdout);
  return result.failures.empty() ? 0 : 1;
}

void add_options(CLI::App& app, Options& options) {
  CampaignOptions& campaign = options.campaign;
  campaign.root = KERNBENCH_ROOT;
  campaign.failures = "fuzz-failures";
  app.add_option("--parser", options.parsers, "one or more of: " + joined_names() + "; else all")
      ->allow_extra_args(false);
  app.add_option("--runs", campaign.runs, "of each parser");
  app.add_option("--seconds", campaign.seconds, "in all, shared evenly by the parsers");
  app.add_option("--seed", campaign.seed, "another one makes other inputs")->capture_default_str();
  app.add_option("--limit", campaign.limit_s, "seconds of CPU time that a run may take")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--failures", campaign.failures, "the folder for inputs that fail")
      ->capture_default_str();
  app.add_option("FILE", options.files, "inputs to run alone, with one --parser")
      ->check(CLI::ExistingFile);
}

int run(int argc, char** argv) {
  CLI::App app("Runs the parsers of user's bytes on mutated inputs.", "kernbench_fuzz");
  Options options;
  add_options(app, options);
  CLI11_PARSE(app, argc, argv);
  const std::vector<const Parser*> chosen = wanted(options.parsers);
  if (!options.files.empty()) {
    if (chosen.size() != 1) throw std::runtime_error("a FILE needs one --parser");
    return run_files(*chosen.front(), options) == 0 ? 0 : 1;
  }
  CampaignOptions& campaign = options.campaign;
  if (campaign.runs == 0 && campaign.seconds <= 0) campaign.runs = 10'000;
  campaign.seconds /= static_cast<double>(chosen.size());
  int failed = 0;
  for (const Parser* parser : chosen) failed += run_parser(*parser, options);
  fmt::print("{} passed, {} failed\n", static_cast<int>(chosen.size()) - failed, failed);
  return failed == 0 ? 0 : 1;
}

}  // namespace

}  // namespace kernbench::fuzz

int main(int argc, char** argv) {
  try {
    return kernbench::fuzz::run(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "kernbench_fuzz: {}\n", error.what());
    return 2;
  }
}
