// The guide "From one device to a mesh": its code is what is compiled here, and the commands print
// what it shows.

#include <catch2/catch.hpp>

#include "test/benches/program_under_test.h"
#include "test/support/guide.h"

namespace kernbench::test::mesh_guide_test {
namespace {

const Guide kGuide = {KERNBENCH_ROOT "/from-one-device-to-a-mesh.md",
                      KERNBENCH_ROOT "/from-one-device-to-a-mesh.ko.md",
                      {KERNBENCH_ROOT "/test/parallel/guide/my_mesh.cpp"}};

std::string output_of(const std::vector<std::string>& words) {
  REQUIRE(words.front() == "./my_mesh");
  std::vector<std::string> arguments(words.begin() + 1, words.end());
  for (std::string& argument : arguments) argument = in_this_tree(argument);
  const ProgramResult result = run_program(arguments, {.program = MY_MESH_PROGRAM});
  return result.out + result.err;
}

TEST_CASE("every piece of code in the guide to meshes is compiled", "[guide]") {
  check_code(kGuide, 5);
}

TEST_CASE("the Korean guide to meshes shows the same", "[guide]") {
  check_translation(kGuide);
}

TEST_CASE("the commands in the guide to meshes print what it shows", "[guide]") {
  check_commands(kGuide, 1, output_of);
}

}  // namespace
}  // namespace kernbench::test::mesh_guide_test
