// The guide "From a dense MLP to its tensor parallel form": its code is what is compiled here, and
// the commands print what it shows.

#include <fmt/format.h>

#include <catch2/catch.hpp>

#include "test/benches/program_under_test.h"
#include "test/support/guide.h"

namespace kernbench::test::tensor_parallel_guide_test {
namespace {

const Guide kGuide = {KERNBENCH_ROOT "/tp/tensor-parallelism.md",
                      KERNBENCH_ROOT "/tp/tensor-parallelism.ko.md",
                      {KERNBENCH_ROOT "/test/tp/guide/my_mlp.cpp"}};

std::string output_of(const std::vector<std::string>& words) {
  REQUIRE((words.front() == "./my_mlp" || words.front() == "kernbench"));
  std::vector<std::string> arguments(words.begin() + 1, words.end());
  for (std::string& argument : arguments) argument = in_this_tree(argument);
  ProgramOptions options;
  if (words.front() == "./my_mlp") options.program = MY_MLP_PROGRAM;
  const ProgramResult result = run_program(arguments, options);
  return result.out + result.err;
}

TEST_CASE("every piece of code in the guide to tensor parallelism is compiled", "[guide]") {
  check_code(kGuide, 8);
}

TEST_CASE("the Korean guide to tensor parallelism shows the same", "[guide]") {
  check_translation(kGuide);
}

TEST_CASE("the commands in the guide to tensor parallelism print what it shows",
          "[guide][exhaustive]") {
  check_commands(kGuide, 10, output_of);
}

TEST_CASE("the program of the guide to tensor parallelism is right on every topology", "[guide]") {
  for (const char* topology : {"default", "torus_2d_2x3", "torus_2d_3x2", "zero_overhead"}) {
    const ProgramResult result =
        run_program({fmt::format("{}/topologies/{}.yaml", KERNBENCH_ROOT, topology)},
                    {.program = MY_MLP_PROGRAM});
    CAPTURE(topology, result.err);
    CHECK(result.exit_code == 0);
    CHECK(result.out ==
          "by hand            y true, dA true, dx false\n"
          "with mappings      y true, dA true, dx true\n"
          "with layers        y true, dA true, dB true, db true, dx true\n"
          "sequence parallel  y true, dA true, dx true, db false, summed true\n");
  }
}

}  // namespace
}  // namespace kernbench::test::tensor_parallel_guide_test
