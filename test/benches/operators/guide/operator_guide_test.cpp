// The guide "Writing an operator case": its code is what is compiled here, and its program prints
// what it shows.

#include <catch2/catch.hpp>

#include "test/benches/program_under_test.h"
#include "test/support/guide.h"

namespace kernbench::test::operator_guide_test {
namespace {

const Guide kGuide = {KERNBENCH_ROOT "/benches/operators/writing-a-case.md",
                      KERNBENCH_ROOT "/benches/operators/writing-a-case.ko.md",
                      {KERNBENCH_ROOT "/test/benches/operators/guide/my_operators.cpp"}};

TEST_CASE("every piece of code in the guide to operators is compiled", "[guide]") {
  check_code(kGuide, 6);
}

TEST_CASE("the Korean guide to operators shows the same", "[guide]") {
  check_translation(kGuide);
}

TEST_CASE("the commands in the guide to operators print what it shows", "[guide][exhaustive]") {
  const TemporaryFolder folder;
  check_commands(kGuide, 4, [&](const std::vector<std::string>& words) {
    REQUIRE(words.front() == "./my_operators");
    const ProgramResult result =
        run_program({words.begin() + 1, words.end()}, {.folder = folder.path("")});
    return result.out + result.err;
  });
}

}  // namespace
}  // namespace kernbench::test::operator_guide_test
