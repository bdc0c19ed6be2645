// ADR-0044, ADR-0054: the bench itself, on some shapes; and what it makes of saved results.

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>

#include "test/benches/program_json.h"

namespace kernbench::test::milestone_1h_gemm_test {

using Catch::Contains;
using Json = nlohmann::ordered_json;

namespace {

ProgramResult run_milestone(const TemporaryFolder& folder, bool fast,
                            const std::vector<std::string>& more = {}) {
  std::vector<std::string> arguments = {"run",
                                        "--bench",
                                        "milestone-1h-gemm",
                                        "--set",
                                        "on=pe",
                                        "--set",
                                        "families=tall",
                                        "--out",
                                        folder.path("o"),
                                        "--json",
                                        folder.path("report.json")};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return run_program(arguments, {.environment = {{"MILESTONE_FAST", fast ? "1" : "0"}}});
}

Json report_in(const TemporaryFolder& folder) {
  return Json::parse(folder.read("report.json"));
}

}  // namespace

TEST_CASE("milestone-1h-gemm leaves all its files, theory and measurement agree",
          "[evaluation][cli]") {
  const TemporaryFolder folder;
  const Json report = json_of({"run", "--bench", "milestone-1h-gemm", "--set", "families=gemv",
                               "--set", "on=pe,sip", "--out", folder.path("o"), "--json", "-"});
  CHECK(report["ok"] == true);
  CHECK(report["rows"].size() == 3 * 2);
  for (const Json& row : report["rows"]) {
    if (row["theory"] == "exact") {  // on one PE: those of a cube wait for each other's memory
      CHECK(row["time_ns"] == row["theoretical_ns"]);
      CHECK(row["window_ns"] == row["theoretical_window_ns"]);
    } else {
      CHECK(row["time_ns"] > row["lower_bound_ns"]);
      CHECK(row["theoretical_ns"].get<double>() ==
            Approx(row["time_ns"].get<double>()).epsilon(0.2));
    }
    CHECK(row["gemm_count"] == row["theoretical_gemm_count"]);
    CHECK(row["hbm_bytes"] == row["theoretical_hbm_bytes"]);
    CHECK(row["time_ns"] >= row["roofline_ns"]);
    CHECK((row["wrong"] == 0 || row["wrong"].is_null()));
  }
  CHECK(report["rows"][0]["wrong"] == 0);
  for (const std::string name :
       {"gemm.journal", "summary.csv", "measured_vs_theoretical.svg", "roofline.svg"}) {
    CHECK(std::filesystem::file_size(folder.path("o/" + name)) > 0);
  }
  // A shape that was not swept gets no figure.
  CHECK_FALSE(std::filesystem::exists(folder.path("o/utilization_square.svg")));
}

TEST_CASE("MILESTONE_FAST=1 draws the same from what is saved, and simulates nothing",
          "[evaluation][cli][exhaustive]") {
  const TemporaryFolder folder;
  CHECK_THAT(run_milestone(folder, true).out, Contains("0 of 3 points of gemm are taken from"));
  const Json first = report_in(folder);
  const std::string journal = folder.read("o/gemm.journal");
  const std::vector files = {folder.read("o/summary.csv"), folder.read("o/roofline.svg")};

  const ProgramResult again = run_milestone(folder, true);
  CHECK(again.exit_code == 0);
  CHECK_THAT(again.out,
             Contains("3 of 3 points of gemm are taken from " + folder.path("o/gemm.journal")));
  const Json second = report_in(folder);
  CHECK(second["rows"] == first["rows"]);
  CHECK(second["ok"] == true);
  CHECK(second["engine"]["fingerprint"] == first["engine"]["fingerprint"]);
  CHECK(files == std::vector{folder.read("o/summary.csv"), folder.read("o/roofline.svg")});
  CHECK(folder.read("o/gemm.journal") == journal);

  const ProgramResult anew = run_milestone(folder, false);  // saved ones only when asked for
  CHECK(anew.exit_code == 0);
  CHECK_THAT(anew.out, !Contains("are taken from"));
  CHECK(report_in(folder)["rows"] == first["rows"]);
  CHECK(std::ranges::count(folder.read("o/gemm.journal"), '\n') == 3);
}

TEST_CASE("saved results that are stale or damaged are computed again, with a message",
          "[evaluation][cli][exhaustive]") {
  const TemporaryFolder folder;
  REQUIRE(run_milestone(folder, false).exit_code == 0);
  const Json right = report_in(folder);
  folder.write("o/gemm.journal",
               replaced(folder.read("o/gemm.journal"), "\"m\":4096", "\"m\":4097"));
  const ProgramResult result = run_milestone(folder, true);
  CHECK(result.exit_code == 0);
  CHECK_THAT(result.out, Contains("gemm.journal: damaged; 1 of its points is not used") &&
                             Contains("2 of 3 points of gemm are taken from"));
  CHECK(report_in(folder)["rows"] == right["rows"]);

  const ProgramResult other = run_milestone(folder, true, {"--topology", "tiny"});
  CHECK(other.exit_code == 0);
  CHECK_THAT(other.out, Contains("0 of 3 points of gemm are taken from"));
}

}  // namespace kernbench::test::milestone_1h_gemm_test
