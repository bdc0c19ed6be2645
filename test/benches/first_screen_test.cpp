#include <catch2/catch.hpp>
#include <filesystem>
#include <regex>
#include <string>

#include "test/benches/program_under_test.h"

namespace kernbench::test::first_screen_test {

namespace {

ProgramResult run_first_screen(const std::string& folder) {
  const std::filesystem::path kernbench = KERNBENCH_PROGRAM;
  const std::filesystem::path program =
      kernbench.parent_path() / "first_screen" / "kernbench_first_screen";
  return run_program({}, {.program = program.string(), .folder = folder});
}

// The time of this machine differs from run to run.
std::string without_wall(const std::string& screen) {
  static const std::regex wall("#   wall .*\n");
  return std::regex_replace(screen, wall, "");
}

}  // namespace

TEST_CASE("the first screen is what kernbench prints", "[cli]") {
  const ProgramResult whole =
      run_program({"run", "--bench", "ccl-allreduce", "--topology", "topologies/default.yaml"},
                  {.folder = KERNBENCH_ROOT});
  const ProgramResult first = run_first_screen(KERNBENCH_ROOT);
  REQUIRE(whole.exit_code == 0);
  CHECK(first.exit_code == 0);
  CHECK(first.err == whole.err);
  CHECK(without_wall(first.out) == without_wall(whole.out));
}

TEST_CASE("the first screen without its topology is an error", "[cli][errors]") {
  const TemporaryFolder folder;
  const ProgramResult result = run_first_screen(folder.path(""));
  CHECK(result.exit_code == 3);
  CHECK(result.out.empty());
  CHECK_THAT(result.err, Catch::Contains("kernbench: error: [KB-") &&
                             Catch::Contains("topologies/default.yaml"));
}

}  // namespace kernbench::test::first_screen_test
