// kernbench run --uncertain, as a user gives it.

#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>

#include "test/benches/program_json.h"
#include "test/support/error_text.h"

namespace kernbench::test::uncertain_command_test {

using Catch::Contains;
using Json = nlohmann::ordered_json;
using Words = std::vector<std::string>;

namespace {

Words allreduce(const Words& more) {
  Words words = {"run",
                 "--bench",
                 "ccl-allreduce",
                 "--topology",
                 "tiny",
                 "--runs",
                 "6",
                 "--uncertain",
                 "sip_link.latency=250..900ns,sip_link.bandwidth=40 GB/s..64 GB/s",
                 "--set",
                 "n_elem=1024,49152"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

// The report without what differs from run to run.
Json results_of(const Words& words) {
  Json report = json_of(words);
  report["engine"].erase("wall_s");
  report["engine"].erase("events_per_s");
  report.erase("artifacts");
  return report;
}

// The times of the runs, in order, of the rows with that number of elements.
std::vector<double> times_of(const Json& report, int n_elem) {
  std::vector<double> times;
  for (const Json& row : report["rows"]) {
    if (row.value("run", 0) > 0 && row["n_elem"] == n_elem) times.push_back(row["time_ns"]);
  }
  return times;
}

std::string error_of(const Words& words) {
  const ProgramResult result = run_program(words);
  CHECK(result.exit_code == 2);
  return result.err;
}

}  // namespace

TEST_CASE("bands are those of the runs' rows", "[uncertain][cli]") {
  const Json report = results_of(allreduce({"--json", "-"}));
  int bands = 0;
  for (const Json& row : report["rows"]) {
    if (!row.contains("low_ns")) continue;
    ++bands;
    std::vector<double> times = times_of(report, row["n_elem"]);
    REQUIRE(times.size() == 6);
    std::ranges::sort(times);
    CHECK(row["low_ns"] == times.front());
    CHECK(row["high_ns"] == times.back());
    CHECK(row["median_ns"] == (times[2] + times[3]) / 2);
    CHECK(row["metric"] == "time_ns");
    CHECK(row["runs"] == 6);
    CHECK_FALSE(row.contains("run"));
  }
  CHECK(bands == 2);
}

TEST_CASE("the run as it is, and a run with its values, are those runs alone", "[uncertain][cli]") {
  const Json rows = results_of(allreduce({"--json", "-"}))["rows"];
  const auto alone = [](const Words& set) {
    Words words = {"run",    "--bench", "ccl-allreduce", "--topology",       "tiny",
                   "--json", "-",       "--set",         "n_elem=1024,49152"};
    words.insert(words.end(), set.begin(), set.end());
    return json_of(words)["rows"];
  };
  CHECK(alone({})[1]["time_ns"] == rows[1]["time_ns"]);
  CHECK(rows[1]["run"] == 0);
  const Json& third = rows[7];
  CHECK(third["run"] == 3);
  const auto given = [&](const std::string& key) {
    return key + "=" + third[key].get<std::string>();
  };
  CHECK(alone({given("system.sip_link.latency"),
               given("system.sip_link.bandwidth")})[1]["time_ns"] == third["time_ns"]);
}

TEST_CASE("jobs, shards and the order of options do not change what ranges give",
          "[uncertain][cli]") {
  const TemporaryFolder folder;
  const Json whole = results_of(allreduce({"--jobs", "1", "--json", "-"}));
  CHECK(results_of(allreduce({"--jobs", "3", "--json", "-"})) == whole);
  CHECK(run_program(allreduce({"--shard", "1/2", "--out", folder.path("a"), "-q"})).exit_code == 0);
  CHECK(run_program(allreduce({"--shard", "2/2", "--out", folder.path("b"), "-q"})).exit_code == 0);
  CHECK(results_of(allreduce({"--journals", folder.path("a") + "," + folder.path("b"), "--out",
                              folder.path("c"), "--json", "-"})) == whole);
  CHECK(results_of(allreduce({"--seed", "1", "--json", "-"}))["rows"] != whole["rows"]);
}

TEST_CASE("the fastest of an axis is told with what decides", "[uncertain][cli]") {
  const TemporaryFolder folder;
  const ProgramResult result = run_program(
      allreduce({"algorithm=ring_allreduce,tree_allreduce", "--out", folder.path("out")}));
  REQUIRE(result.exit_code == 0);
  CHECK_THAT(result.out,
             Contains("#   varies        system.sip_link.latency: 250 ns to 900 ns, in 6 "
                      "runs\n"));
  CHECK_THAT(result.out, Contains("# the fastest algorithm\n# n_elem 1024: "));
  CHECK_THAT(folder.read("out/bands.csv"), Contains("low_ns,median_ns,high_ns,as_it_is_ns"));
  CHECK_THAT(folder.read("out/ranking.csv"), Contains("algorithm,"));
  CHECK_THAT(folder.read("out/band_curves.csv"), Contains("x,y,series,low,high\r\n"));
  CHECK_THAT(folder.read("out/bands.gp"), Contains("filledcurves") && Contains("'ring_allreduce'"));
}

TEST_CASE("the run as it is alone is recorded", "[uncertain][cli]") {
  const TemporaryFolder folder;
  const ProgramResult result =
      run_program(allreduce({"--trace", folder.path("t.json"), "--explain"}));
  REQUIRE(result.exit_code == 0);
  CHECK_THAT(result.out, Contains("the run as it is alone, of 7\n"));
  CHECK_THAT(result.out, Contains("explained     the first, as it is, of "));
  CHECK(std::ranges::count(folder.names(), "t.json") == 1);
}

TEST_CASE("energy is that of the runs", "[uncertain][cli]") {
  const Json rows = json_of(allreduce({"--energy", "--json", "-"}))["rows"];
  for (const Json& row : rows) CHECK(row.contains("energy_uj") == row.contains("run"));
}

TEST_CASE("the texts of a column of the rows are ranked too", "[uncertain][cli]") {
  const TemporaryFolder folder;
  const ProgramResult result = run_program({"run", "--bench", "ipcq", "--topology", "tiny", "--set",
                                            "depth=1", "slot=4096", "--runs", "5", "--uncertain",
                                            "hbm.latency=100..150ns", "--rank-by", "buffer_kind"});
  REQUIRE(result.exit_code == 0);
  CHECK_THAT(result.out, Contains("# the fastest buffer_kind\n# tcm wins in 5 of 5\n"));
}

TEST_CASE("ranges that make no sense are refused before anything runs", "[uncertain][errors]") {
  const Words run = {"run", "--bench", "ccl-allreduce", "--topology", "tiny"};
  const auto with = [&](const Words& more) {
    Words words = run;
    words.insert(words.end(), more.begin(), more.end());
    return error_of(words);
  };
  const std::string range = "sip_link.latency=1..2ns";
  CHECK_THAT(with({"--runs", "5"}), Says("KB-U012", "--runs", "'5'", "--uncertain"));
  CHECK_THAT(with({"--metric", "time_ns"}), Says("KB-U012", "--metric", "--uncertain"));
  CHECK_THAT(with({"--rank-by", "algorithm"}), Says("KB-U012", "--rank-by", "--uncertain"));
  for (const std::string runs : {"2", "10001", "x", "-3"}) {
    CHECK_THAT(with({"--uncertain", range, "--runs=" + runs}),
               Says("KB-U012", "--runs", "3 to 10000"));
  }
  CHECK_THAT(with({"--uncertain", range, "depth=1..9", "ucie.latency=1..2ns", "eager=1..9KiB",
                   "--runs", "3"}),
             Says("KB-U012", "--runs", "3", "4 ranges"));
  CHECK_THAT(with({"--uncertain", "depth=1..9", "--set", "depth=4"}),
             Says("KB-U012", "--uncertain", "depth", "--set"));
  CHECK_THAT(with({"--uncertain", range, "--runs", "5000", "--set", "depth=1,2,4"}),
             Says("KB-U016", "5,000 runs", "3", "10,000", "--yes"));
  CHECK_THAT(with({"--uncertain", "sip_link.latency"}), Says("KB-U021", "LOW..HIGH"));
  CHECK_THAT(with({"--uncertain", range, "--rank-by", "algorthm", "--set", "n_elem=64"}),
             Says("KB-U017", "--rank-by", "'algorthm'", "algorithm"));
  CHECK_THAT(with({"--uncertain", range, "--metric", "tim", "--set", "n_elem=64"}),
             Says("KB-U017", "--metric", "'tim'", "time_ns"));
  CHECK_THAT(error_of({"whatif", "--bench", "ccl-allreduce", "--uncertain", range}),
             Says("KB-U001", "--uncertain"));
  CHECK_THAT(error_of({"compare", "--bench", "ccl-allreduce", "--uncertain", range}),
             Says("KB-U001", "--uncertain"));
}

}  // namespace kernbench::test::uncertain_command_test
