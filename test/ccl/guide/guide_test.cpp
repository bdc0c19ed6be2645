// The guide "Writing a collective": its code is what is compiled here, and its programs print what
// it shows.

#include "test/support/guide.h"

#include <catch2/catch.hpp>

#include "test/benches/program_under_test.h"

namespace kernbench::test::guide_test {
namespace {

const Guide kGuide = {KERNBENCH_ROOT "/ccl/writing-a-collective.md",
                      KERNBENCH_ROOT "/ccl/writing-a-collective.ko.md",
                      {KERNBENCH_ROOT "/test/ccl/guide/my_collectives.cpp",
                       KERNBENCH_ROOT "/test/ccl/guide/command_line.cpp",
                       KERNBENCH_ROOT "/test/ccl/guide/worker.cpp"}};

std::string output_of(const std::vector<std::string>& words, const TemporaryFolder& folder) {
  const std::string& program = words.front();
  REQUIRE((program == "./my_collectives" || program == "./my_worker"));
  std::vector<std::string> arguments;
  for (std::size_t i = 1; i < words.size(); ++i) arguments.push_back(in_this_tree(words[i]));
  ProgramOptions options{.folder = folder.path("")};
  if (program == "./my_worker") options.program = MY_WORKER_PROGRAM;
  const ProgramResult result = run_program(arguments, options);
  return result.out + result.err;
}

TEST_CASE("every piece of code in the guide is compiled, and all that is meant for it is there",
          "[guide]") {
  check_code(kGuide, 8);
}

TEST_CASE("the Korean guide shows the same code, files, commands and output", "[guide]") {
  check_translation(kGuide);
}

TEST_CASE("the commands in the guide print what it shows", "[guide][exhaustive]") {
  const TemporaryFolder folder;
  for (const GuideFile& file : files_in(kGuide, "yaml")) folder.write(file.name, file.text);
  check_commands(kGuide, 8, [&](const auto& words) { return output_of(words, folder); });
}

TEST_CASE("an ellipsis stands for any text", "[guide]") {
  CHECK(matches("one\ntwo\nthree\n", "one\n...three\n"));
  CHECK(matches("one two three\n", "one ... three\n"));
  CHECK(matches("one\n", "one\n..."));
  CHECK_FALSE(matches("one two\n", "one ... three\n"));
  CHECK_FALSE(matches("one\n", "one"));
}

}  // namespace
}  // namespace kernbench::test::guide_test
