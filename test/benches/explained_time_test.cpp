// --explain, --summary and --report speak of the time that the rows report.

#include <catch2/catch.hpp>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "test/benches/program_json.h"
#include "test/benches/program_under_test.h"

namespace kernbench::test::explained_time_test {
namespace {

struct Run {
  std::vector<std::string> words;  // bench and settings
  std::string column;
};

ProgramResult run_with(const Run& run, const std::vector<std::string>& more) {
  std::vector<std::string> words = {"run", "--bench"};
  words.insert(words.end(), run.words.begin(), run.words.end());
  words.insert(words.end(), more.begin(), more.end());
  return run_program(words);
}

// The number after the last of these words.
double number_after(const std::string& text, std::string_view words) {
  const std::size_t at = text.rfind(words);
  REQUIRE(at != std::string::npos);
  return std::strtod(text.c_str() + at + words.size(), nullptr);
}

double sum_of_rows(const nlohmann::ordered_json& report, const std::string& column) {
  double sum = 0;
  for (const auto& row : report["rows"]) {
    if (row.contains(column)) sum += row[column].get<double>();
  }
  CHECK(sum > 0);
  return sum;
}

TEST_CASE("an explanation is of the time of the rows", "[cli][explain]") {
  const Run run = GENERATE(
      Run{{"ccl-allreduce", "--topology", "tiny", "--set", "n_elem=64,4096"}, "time_ns"},
      Run{{"gemm", "--topology", "tiny", "--set", "m=64", "n=64", "k=64"}, "time_ns"},
      Run{{"tp-mlp", "--topology", "tiny", "--set", "tp=2"}, "step_ns"},
      Run{{"ddp", "--set", "world=2", "bucket_cap_mb=100", "layers=1", "vocab=16", "hidden=16",
           "seq=8", "batch=1"},
          "step_ns"},
      Run{{"train", "--topology", "tiny", "--set", "steps=2", "hidden=16"}, "time_ns"},
      Run{{"kernels", "--topology", "tiny", "--set", "function=gelu", "size=8Ki"}, "time_ns"});
  CAPTURE(run.words);
  const TemporaryFolder folder;
  const ProgramResult result =
      run_with(run, {"--explain", "--summary", "--json", folder.path("report.json")});
  CAPTURE(result.err);
  REQUIRE(result.exit_code == 0);
  const auto report = nlohmann::ordered_json::parse(folder.read("report.json"));
  const double us = sum_of_rows(report, run.column) / 1e3;
  CHECK(number_after(result.out, "\nwhere ") == Approx(us).margin(0.0006));
  const double rest = report["engine"]["simulated_ns"].get<double>() / 1e3 - us;
  const bool says_rest = result.out.find("\nnot timed: ") != std::string::npos;
  REQUIRE(says_rest == (rest > 0.001));
  if (says_rest) CHECK(number_after(result.out, "\nnot timed: ") == Approx(rest).margin(0.0011));
}

TEST_CASE("the whole run is explained on request", "[cli][explain]") {
  const Run run{{"ccl-allreduce", "--topology", "tiny", "--set", "n_elem=64"}, "time_ns"};
  const ProgramResult result = run_with(run, {"--explain", "--whole-run"});
  REQUIRE(result.exit_code == 0);
  CHECK(number_after(result.out, "\nwhere ") == number_after(result.out, "#   simulated     "));
  CHECK(result.out.find("not timed") == std::string::npos);
  CHECK(result.out.find("us went, the whole run\n") != std::string::npos);
}

TEST_CASE("the whole run of nothing is refused", "[cli][explain][errors]") {
  const ProgramResult result =
      run_with({{"ccl-allreduce", "--topology", "tiny"}, ""}, {"--whole-run"});
  CHECK(result.exit_code == 2);
  CHECK(result.err.find("--whole-run: has no effect without --explain") != std::string::npos);
}

// Uploads are over the host's link, which no row uses.
TEST_CASE("what helps is what makes the rows faster", "[cli][explain]") {
  const Run run{{"ccl-allreduce", "--set", "n_elem=49152"}, "time_ns"};
  const ProgramResult result = run_with(run, {"--explain"});
  REQUIRE(result.exit_code == 0);
  CHECK(result.out.find("system.sip_link.latency twice as fast") != std::string::npos);
  CHECK(result.out.find("system.host_link.bandwidth twice as fast") == std::string::npos);
  CHECK(result.out.find("sip0.host.down") == std::string::npos);
}

}  // namespace
}  // namespace kernbench::test::explained_time_test
