// README.md, as a reader follows it: its commands succeed, its first screen is what is printed, and
// the Korean README shows the same.

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <regex>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "test/benches/program_under_test.h"
#include "test/support/guide.h"

namespace kernbench::test::readme_test {
namespace {

namespace fs = std::filesystem;

// README, and the pages that have taken over chapters of it.
const std::vector<std::string> kPages = {"README", "how-far-to-trust-the-times",
                                         "training-a-model"};

// A command of the README that no test can run as it stands.
struct Substitute {
  std::string command;
  std::string why;
  std::string instead;
  int exit_code = 0;
  std::string says = {};  // on standard error
};

const std::vector<Substitute> kSubstitutes = {
    // The case and the options are checked before the topology is looked up.
    {"kernbench bench --case rms", "its checks take 40 s",
     "kernbench bench --case rms --topology no_such_topology", 2, "[KB-U004]"},
    {"kernbench run --bench milestone-1h-ccl", "it takes minutes",
     "kernbench run --bench milestone-1h-ccl --out ccl --shard 1/200"},
    {"kernbench run --bench milestone-1h-gemm", "it takes minutes",
     "kernbench run --bench milestone-1h-gemm --out gemm --shard 1/200"},
    {"mpirun -n 4 kernbench run --bench milestone-1h-ccl", "it needs a build with MPI",
     "kernbench run --bench milestone-1h-ccl --out mpi --shard 1/200"}};

std::string path_of(const std::string& page, const std::string& language) {
  return KERNBENCH_ROOT "/" + page + language;
}

// An indented line is what a reader types or sees; "\" at its end joins the next one to it.
std::vector<std::string> indented_lines(const std::string& path) {
  std::istringstream text(std::regex_replace(read_file(path), std::regex(" *\\\\\n *"), " "));
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);) {
    if (line.starts_with("    ")) lines.push_back(line.substr(4));
  }
  return lines;
}

std::vector<std::string> commands_in(const std::string& path) {
  static const std::regex comment(" +# .*");
  std::vector<std::string> commands;
  for (const std::string& line : indented_lines(path)) {
    if (!line.starts_with("kernbench ") && !line.starts_with("mpirun ")) continue;
    commands.push_back(std::regex_replace(line, comment, ""));
  }
  return commands;
}

// Returns the commands of all pages, each once.
std::vector<std::string> all_commands() {
  std::vector<std::string> commands;
  for (const std::string& page : kPages) {
    for (const std::string& command : commands_in(path_of(page, ".md"))) {
      if (std::ranges::count(commands, command) == 0) commands.push_back(command);
    }
  }
  return commands;
}

Substitute what_is_run(const std::string& command) {
  const auto found = std::ranges::find(kSubstitutes, command, &Substitute::command);
  return found == kSubstitutes.end() ? Substitute{command, "", command} : *found;
}

// As a shell runs it that finds the program, in a folder with the clone's topologies.
ProgramResult run_command(const std::string& command, const TemporaryFolder& folder) {
  const std::string programs = fs::path(KERNBENCH_PROGRAM).parent_path();
  return run_program({"-c", "PATH='" + programs + "':$PATH; " + command},
                     {.program = "/bin/sh", .folder = folder.path("")});
}

// Returns the output of `kernbench run` that a page shows, from its first line to the fingerprint.
std::string screen_in(const std::string& path) {
  std::string screen;
  for (const std::string& line : indented_lines(path)) {
    if (line.starts_with("# kernbench ") || !screen.empty()) screen += line + "\n";
    if (line.starts_with("#   fingerprint")) break;
  }
  return screen;
}

// The time of this machine differs from run to run.
std::string without_wall(const std::string& screen) {
  static const std::regex wall("#   wall .*\n");
  return std::regex_replace(screen, wall, "");
}

// The lines of a page from the one that begins so to the last one that begins otherwise so.
std::string lines_between(const std::string& path, std::string_view first, std::string_view last) {
  std::string lines;
  std::string shown;
  for (const std::string& line : indented_lines(path)) {
    if (line.starts_with(first) || !lines.empty()) lines += line + "\n";
    if (line.starts_with(last) && !lines.empty()) shown = lines;
  }
  return shown;
}

TEST_CASE("the bands and rankings of a page are what is printed", "[guide][uncertain]") {
  const std::string page = path_of("how-far-to-trust-the-times", ".md");
  const std::vector<std::string> commands = commands_in(page);
  const auto command = std::ranges::find_if(
      commands, [](const std::string& one) { return one.find("--uncertain") != one.npos; });
  REQUIRE(command != commands.end());
  const TemporaryFolder folder;
  const ProgramResult result = run_command(*command, folder);
  REQUIRE(result.exit_code == 0);
  const std::string shown = lines_between(page, "# in_place_time_ns", "# bytes 131072");
  CHECK(shown.find("# the fastest algorithm\n") != shown.npos);
  std::istringstream lines(shown);
  std::size_t at = 0;
  for (std::string line; std::getline(lines, line);) {
    CAPTURE(line);
    const std::size_t found = result.out.find(line + "\n", at);
    REQUIRE(found != result.out.npos);
    at = found;
  }
}

// Runs them in one folder, since a later one reads files of an earlier one, and checks that these
// files are made.
void check_that_all_succeed(const std::vector<std::string>& commands,
                            const std::vector<std::string>& made) {
  const TemporaryFolder folder;
  fs::create_directory_symlink(KERNBENCH_ROOT "/topologies", folder.path("topologies"));
  for (const std::string& command : commands) {
    const Substitute run = what_is_run(command);
    const ProgramResult result = run_command(run.instead, folder);
    CAPTURE(command, run.instead, result.err);
    CHECK(result.exit_code == run.exit_code);
    CHECK_THAT(result.err, Catch::Contains(run.says));
    CHECK((result.err.find("error:") == std::string::npos) == (run.exit_code == 0));
  }
  for (const std::string& file : made) CHECK(fs::file_size(folder.path(file)) > 1000);
}

// The README's commands before its chapter of commands, and those of the chapter.
std::pair<std::vector<std::string>, std::vector<std::string>> commands_of_readme() {
  std::vector<std::string> commands = commands_in(path_of("README", ".md"));
  const auto chapter = std::ranges::find_if(
      commands, [](const std::string& one) { return one.find("algorithm=auto") != one.npos; });
  REQUIRE(chapter != commands.end());
  return {{commands.begin(), chapter}, {chapter, commands.end()}};
}

TEST_CASE("each command of the README's first hour succeeds", "[guide][exhaustive]") {
  const std::vector<std::string> commands = commands_of_readme().first;
  CHECK(commands.size() >= 10);
  check_that_all_succeed(commands, {"torus.svg", "report.html", "trace.json"});
}

TEST_CASE("each command of the README's list succeeds", "[guide][exhaustive]") {
  const std::vector<std::string> commands = commands_of_readme().second;
  CHECK(commands.size() >= 20);
  check_that_all_succeed(commands, {"kineto/rank0.json"});
}

TEST_CASE("each command of the pages beside the README succeeds", "[guide][exhaustive]") {
  const std::vector<std::string> of_readme = commands_in(path_of("README", ".md"));
  std::vector<std::string> commands = all_commands();
  std::erase_if(commands, [&](const std::string& command) {
    return std::ranges::count(of_readme, command) > 0;
  });
  CHECK(commands.size() >= 5);
  check_that_all_succeed(commands, {});
}

TEST_CASE("each command that is not run as it stands is one of the README", "[guide]") {
  const std::vector<std::string> commands = all_commands();
  for (const Substitute& substitute : kSubstitutes) {
    CAPTURE(substitute.command, substitute.why);
    CHECK(std::ranges::count(commands, substitute.command) == 1);
  }
}

TEST_CASE("the Korean README and its pages show the same commands and code", "[guide]") {
  for (const std::string& page : kPages) {
    CAPTURE(page);
    CHECK(commands_in(path_of(page, ".ko.md")) == commands_in(path_of(page, ".md")));
    check_translation({path_of(page, ".md"), path_of(page, ".ko.md"), {}});
  }
}

TEST_CASE("the README shows the first screen that is printed", "[guide]") {
  const ProgramResult result = run_program({"run", "--bench", "ccl-allreduce"});
  REQUIRE(result.exit_code == 0);
  CHECK(without_wall(screen_in(path_of("README", ".md"))) == without_wall(result.out));
  CHECK(screen_in(path_of("README", ".ko.md")) == screen_in(path_of("README", ".md")));
}

}  // namespace
}  // namespace kernbench::test::readme_test
