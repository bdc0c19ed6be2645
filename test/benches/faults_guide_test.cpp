// The guide "What goes wrong": its commands print what it shows.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <catch2/catch.hpp>
#include <filesystem>

#include "test/benches/program_under_test.h"
#include "test/support/guide.h"

namespace kernbench::test::faults_guide_test {
namespace {

const Guide kGuide = {KERNBENCH_ROOT "/benches/stragglers/faults.md",
                      KERNBENCH_ROOT "/benches/stragglers/faults.ko.md",
                      {}};

TEST_CASE("the Korean guide to faults shows the same", "[guide][faults]") {
  check_translation(kGuide);
}

TEST_CASE("the commands in the guide to faults print what it shows",
          "[guide][faults][exhaustive]") {
  const TemporaryFolder folder;
  const std::string programs = std::filesystem::path(KERNBENCH_PROGRAM).parent_path();
  check_commands(kGuide, 7, [&](const std::vector<std::string>& words) {
    const ProgramResult result =
        run_program({"-c", fmt::format("PATH='{}':$PATH; {}", programs, fmt::join(words, " "))},
                    {.program = "/bin/sh", .folder = folder.path("")});
    return result.out + result.err;
  });
}

}  // namespace
}  // namespace kernbench::test::faults_guide_test
