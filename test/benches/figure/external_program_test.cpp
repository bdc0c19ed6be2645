#include "benches/figure/external_program.h"

#include <catch2/catch.hpp>
#include <filesystem>

#include "test/benches/program_under_test.h"

namespace kernbench::benches::figure::external_program_test {

namespace {

namespace fs = std::filesystem;
using test::TemporaryFolder;

std::string program(const TemporaryFolder& folder, const std::string& script) {
  const std::string path = folder.write("program", "#!/bin/sh\n" + script);
  fs::permissions(path, fs::perms::owner_all);
  return path;
}

}  // namespace

TEST_CASE("a program reads and writes files that lie in no folder", "[figure][program]") {
  const std::string large = "begin" + std::string(3'000'000, 'x');
  const MemoryFile in(large);
  const MemoryFile out;
  CHECK(run_program({"cp", in.path(), out.path()}, {&in, &out}, "coreutils").empty());
  CHECK((out.content() == large));
  // One that reads nothing does not disturb us.
  CHECK(run_program({"true"}, {&in}, "coreutils").empty());
}

TEST_CASE("a program that is not there, or is none, is told", "[figure][program]") {
  CHECK(run_program({"no-such-program"}, {}, "some-package") ==
        "there is no 'no-such-program' here; Debian's package some-package has it");
  const TemporaryFolder folder;
  const std::string not_a_program = folder.write("file", "");
  CHECK(run_program({not_a_program}, {}, "") == "'" + not_a_program + "': Permission denied");
}

TEST_CASE("a program that fails in any way is told, in one line", "[figure][program]") {
  const TemporaryFolder folder;
  const auto problem_with = [&](const std::string& script) {
    const std::string path = program(folder, script);
    return test::replaced(run_program({path}, {}, ""), path, "X");
  };
  CHECK(problem_with("exit 3\n") == "'X' exited with 3");
  CHECK(problem_with("echo first; echo second >&2; echo; exit 4\n") == "'X' exited with 4: second");
  CHECK(problem_with("kill -9 $$\n") == "'X' was ended by signal 9");
  CHECK(problem_with("read line || exit 5\n") == "'X' exited with 5");  // there is nothing to read
}

TEST_CASE("a program that does not end is ended", "[figure][program]") {
  CHECK(run_program({"sleep", "1000"}, {}, "coreutils", std::chrono::milliseconds(10)) ==
        "'sleep' did not end within 10 ms");
}

}  // namespace kernbench::benches::figure::external_program_test
