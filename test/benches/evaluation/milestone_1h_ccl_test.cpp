// ADR-0043, ADR-0054: the bench itself, on one size.

#include <catch2/catch.hpp>
#include <filesystem>

#include "test/benches/program_json.h"
#include "test/support/error_text.h"

namespace kernbench::test::milestone_1h_ccl_test {

// `gnuplot latency.gp` draws the same figure as the program.
void check_drawn_again(const TemporaryFolder& folder) {
  if (!std::filesystem::exists(folder.path("o/latency.svg"))) {
    WARN("there is no gnuplot here");
    return;
  }
  const std::string svg = folder.read("o/latency.svg");
  const std::string png = folder.read("o/latency.png");
  REQUIRE(run_program({"latency.gp"}, {.program = "/usr/bin/gnuplot", .folder = folder.path("o")})
              .exit_code == 0);
  CHECK(folder.read("o/latency.svg") == svg);
  CHECK(folder.read("o/latency.png") == png);
}

TEST_CASE("milestone-1h-ccl leaves all its files, and every row is right and above its bound",
          "[evaluation][cli][exhaustive]") {
  const TemporaryFolder folder;
  const ProgramResult result = run_program({"run", "--bench", "milestone-1h-ccl", "--set",
                                            "n_elem=64", "--out", folder.path("o"), "--json", "-"});
  const auto report = json_of(result);
  CHECK(report["ok"] == true);
  CHECK(report["rows"].size() == 9 + 4 + 3 + 4 * 3);
  for (const auto& row : report["rows"]) {
    CHECK(row["wrong"] == 0);
    CHECK(row["crit_ns"] >= row["lower_bound_ns"]);
    CHECK(row["tie_spread"].get<double>() < 1);  // no order takes twice as long as another
  }
  for (const std::string name :
       {"summary.csv", "buffer_kinds.csv", "correctness.csv", "roots.csv", "latency.gp",
        "buffer_kinds.gp", "model_vs_fsim.gp", "topology_ring_1d_6.svg"}) {
    CHECK(std::filesystem::file_size(folder.path("o/" + name)) > 0);
  }
  CHECK_FALSE(std::filesystem::exists(folder.path("o/latency.journal")));
  CHECK_THAT(result.err, Catch::Contains("in 2 more orders of simultaneous events"));
  check_drawn_again(folder);
}

TEST_CASE("milestone-1h-ccl refuses a topology, since it names its own",
          "[evaluation][cli][errors]") {
  const ProgramResult result =
      run_program({"run", "--bench", "milestone-1h-ccl", "--topology", "tiny"});
  CHECK(result.exit_code == 2);
  CHECK_THAT(result.err, test::Says("KB-U012", "--topology", "ring_1d_6", "torus_2d_2x3",
                                    "mesh_2d_no_wrap_2x3"));
}

TEST_CASE("without gnuplot there are CSV and .gp, and a line that says what to install",
          "[evaluation][cli][exhaustive]") {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder.path("o"));
  folder.write("o/latency.svg", "of yesterday");
  const ProgramResult result =
      run_program({"run", "--bench", "milestone-1h-ccl", "--set", "n_elem=64", "--out", "o"},
                  {.folder = folder.path(""), .environment = {{"PATH", ""}}});
  CHECK(result.exit_code == 0);
  CHECK_THAT(result.out, Catch::Contains("#   no picture    latency: there is no 'gnuplot' here; "
                                         "Debian's package gnuplot-nox has it\n"));
  CHECK(result.out.find("gnuplot") == result.out.rfind("there is no 'gnuplot'") + 13);
  CHECK(folder.read("o/latency.gp").starts_with("# For gnuplot, in this folder: "));
  CHECK_FALSE(std::filesystem::exists(folder.path("o/latency.svg")));
  CHECK(std::filesystem::exists(folder.path("o/topology_ring_1d_6.svg")));
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
