// ADR-0043, ADR-0054: the bench itself, on one size.

#include <catch2/catch.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "test/benches/program_under_test.h"

namespace kernbench::test::milestone_1h_ccl_test {

TEST_CASE("milestone-1h-ccl leaves all its files, and every row is right and above its bound",
          "[evaluation][cli][exhaustive]") {
  const TemporaryFolder folder;
  const ProgramResult result = run_program({"run", "--bench", "milestone-1h-ccl", "--set",
                                            "n_elem=64", "--out", folder.path("o"), "--json", "-"});
  REQUIRE(result.exit_code == 0);
  const auto report = nlohmann::json::parse(result.out);
  CHECK(report["ok"] == true);
  CHECK(report["rows"].size() == 9 + 3 + 3 + 2);
  for (const auto& row : report["rows"]) {
    CHECK(row["wrong"] == 0);
    CHECK(row["crit_ns"] >= row["lower_bound_ns"]);
  }
  for (const std::string name :
       {"summary.csv", "buffer_kinds.csv", "correctness.csv", "roots.csv", "buffer_kinds.svg",
        "model_vs_fsim.svg", "latency_ring_1d_6.svg", "latency_torus_2d_2x3.svg",
        "latency_mesh_2d_no_wrap_2x3.svg", "topology_ring_1d_6.svg"}) {
    CHECK(std::filesystem::file_size(folder.path("o/" + name)) > 0);
  }
  CHECK_FALSE(std::filesystem::exists(folder.path("o/latency.journal")));
}

TEST_CASE("milestone-1h-ccl refuses what is no all_reduce over SIPs", "[evaluation][cli]") {
  const TemporaryFolder folder;
  const std::string text =
      GENERATE("defaults: {algorithm: hello_send}", "defaults: {world_size: 8, algorithm: auto}");
  const std::string ccl = folder.write("ccl.yaml", text);
  const ProgramResult result =
      run_program({"run", "--bench", "milestone-1h-ccl", "--ccl", ccl, "--out", folder.path("o")});
  CHECK(result.exit_code == 3);
  CHECK_THAT(result.err, Catch::Contains("[KB-Y043] ccl.yaml: the evaluation is of all_reduce"));
}

}  // namespace kernbench::test::milestone_1h_ccl_test
