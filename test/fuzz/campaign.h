// Many runs of one parser on mutated inputs, in a child process that may crash.
//
// Run n of a seed starts from an input of the pool: the shipped files, the corpus, and every input
// whose error had a text that was new.  Nothing else decides, so that a campaign of a seed is the
// same on every host, however fast it is.

#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "test/fuzz/parser.h"

namespace kernbench::fuzz {

// Seconds of CPU time that a run may take.  A sanitizer makes everything several times slower.
#ifdef KERNBENCH_ASAN
inline constexpr double kLimit_s = 5;
#else
inline constexpr double kLimit_s = 1;
#endif

struct CampaignOptions {
  std::uint64_t seed = 1;
  std::uint64_t runs = 0;               // 0: as many as `seconds` allow
  double seconds = 0;                   // of wall time; 0: as many as `runs` need
  double limit_s = kLimit_s;            // CPU time that one run may take
  std::uint64_t max_failed_runs = 100;  // after which it ends
  std::filesystem::path root;           // of the repository
  std::filesystem::path failures;       // the folder for inputs that fail
};

struct Failure {
  std::uint64_t run = 0;
  std::filesystem::path file;  // the input
  std::string text;
};

struct CampaignResult {
  std::uint64_t runs = 0;
  std::uint64_t accepted = 0;
  std::size_t kept = 0;  // inputs of the pool that mutations found
  double seconds = 0;
  double slowest_s = 0;  // CPU time of a run
  std::uint64_t failed_runs = 0;
  std::vector<Failure> failures;  // the first of each kind
};

CampaignResult run_campaign(const Parser& parser, const CampaignOptions& options);

// Runs the parser once, in a child.  Returns what is wrong; empty if nothing is.
std::string failure_of(const Parser& parser, const std::string& input, double limit_s);

// The shipped files and the corpus of a parser, in order of their names.
std::vector<std::filesystem::path> input_files(const Parser& parser,
                                               const std::filesystem::path& root);

std::string read_bytes(const std::filesystem::path& file);

}  // namespace kernbench::fuzz
