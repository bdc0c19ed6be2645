// The guide "Writing a collective": its code is what is compiled here, and its programs print what
// it shows.

#include <catch2/catch.hpp>
#include <sstream>

#include "test/benches/program_under_test.h"

namespace kernbench::test {
namespace {

const std::string kEnglish = KERNBENCH_ROOT "/ccl/writing-a-collective.md";
const std::string kKorean = KERNBENCH_ROOT "/ccl/writing-a-collective.ko.md";
const std::vector<std::string> kSources = {KERNBENCH_ROOT "/test/ccl/guide/my_collectives.cpp",
                                           KERNBENCH_ROOT "/test/ccl/guide/command_line.cpp",
                                           KERNBENCH_ROOT "/test/ccl/guide/worker.cpp"};

using Lines = std::vector<std::string>;

Lines lines_of(const std::string& path) {
  std::istringstream text(read_file(path));
  Lines lines;
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

struct Block {
  std::string language;
  Lines lines;

  friend bool operator==(const Block&, const Block&) = default;
};

// What stands between ```language and ```.
std::vector<Block> blocks_of(const std::string& path) {
  std::vector<Block> blocks;
  bool inside = false;
  for (const std::string& line : lines_of(path)) {
    if (line.starts_with("```")) {
      if (!inside) blocks.push_back({line.substr(3), {}});
      inside = !inside;
    } else if (inside) {
      blocks.back().lines.push_back(line);
    }
  }
  CHECK_FALSE(inside);
  return blocks;
}

// What stands between "// guide: begin" and "// guide: end".
std::vector<Lines> snippets() {
  std::vector<Lines> all;
  for (const std::string& path : kSources) {
    bool inside = false;
    for (const std::string& line : lines_of(path)) {
      if (line.starts_with("// guide: ")) {
        inside = line == "// guide: begin";
        if (inside) all.emplace_back();
      } else if (inside) {
        all.back().push_back(line);
      }
    }
  }
  return all;
}

// "..." stands for any text.
bool matches(std::string_view text, std::string_view pattern) {
  const std::string_view gap = "...";
  std::size_t end = pattern.find(gap);
  if (end == std::string_view::npos) return text == pattern;
  if (!text.starts_with(pattern.substr(0, end))) return false;
  text.remove_prefix(end);
  while (true) {
    pattern.remove_prefix(end + gap.size());
    end = pattern.find(gap);
    if (end == std::string_view::npos) return text.ends_with(pattern);
    const std::size_t found = text.find(pattern.substr(0, end));
    if (found == std::string_view::npos) return false;
    text.remove_prefix(found + end);
  }
}

// A command of a console block, and the lines that follow it.
struct Run {
  std::string command;
  std::string expected;
};

std::vector<Run> runs_of(const std::string& path) {
  std::vector<Run> runs;
  for (const Block& block : blocks_of(path)) {
    if (block.language != "console") continue;
    for (const std::string& line : block.lines) {
      if (line.starts_with("$ ")) {
        runs.push_back({line.substr(2), ""});
      } else {
        REQUIRE_FALSE(runs.empty());
        runs.back().expected += line + "\n";
      }
    }
  }
  return runs;
}

// PREFIX is where kernbench is installed.
std::string in_this_tree(std::string argument) {
  const std::string installed = "PREFIX/share/kernbench";
  return argument.starts_with(installed) ? KERNBENCH_ROOT + argument.substr(installed.size())
                                         : argument;
}

std::string output_of(const Run& run, const TemporaryFolder& folder) {
  std::istringstream words(run.command);
  std::string program;
  words >> program;
  REQUIRE((program == "./my_collectives" || program == "./my_worker"));
  std::vector<std::string> arguments;
  for (std::string word; words >> word;) arguments.push_back(in_this_tree(word));
  ProgramOptions options{.folder = folder.path("")};
  if (program == "./my_worker") options.program = MY_WORKER_PROGRAM;
  const ProgramResult result = run_program(arguments, options);
  return result.out + result.err;
}

TEST_CASE("every piece of code in the guide is compiled, and all that is meant for it is there",
          "[guide]") {
  const std::vector<Lines> compiled = snippets();
  std::vector<Lines> shown;
  for (const Block& block : blocks_of(kEnglish)) {
    if (block.language != "cpp") continue;
    CAPTURE(block.lines.front());
    CHECK(std::ranges::count(compiled, block.lines) == 1);
    shown.push_back(block.lines);
  }
  for (const Lines& snippet : compiled) {
    CAPTURE(snippet.front());
    CHECK(std::ranges::count(shown, snippet) == 1);
  }
  CHECK(shown.size() >= 8);
}

TEST_CASE("the Korean guide shows the same code, files, commands and output", "[guide]") {
  const std::vector<Block> english = blocks_of(kEnglish);
  const std::vector<Block> korean = blocks_of(kKorean);
  REQUIRE(english.size() == korean.size());
  for (std::size_t i = 0; i < english.size(); ++i) {
    CAPTURE(i, english[i].lines.front());
    CHECK(english[i] == korean[i]);
  }
}

TEST_CASE("the commands in the guide print what it shows", "[guide]") {
  const TemporaryFolder folder;
  for (const Block& block : blocks_of(kEnglish)) {
    if (block.language != "yaml") continue;
    std::string text;
    for (const std::string& line : block.lines) text += line + "\n";
    folder.write(block.lines.front().substr(2), text);  // "# my.yaml"
  }
  const std::vector<Run> runs = runs_of(kEnglish);
  CHECK(runs.size() >= 8);
  for (const Run& run : runs) {
    const std::string output = output_of(run, folder);
    CAPTURE(run.command, run.expected, output);
    CHECK(matches(output, run.expected));
  }
}

TEST_CASE("an ellipsis stands for any text", "[guide]") {
  CHECK(matches("one\ntwo\nthree\n", "one\n...three\n"));
  CHECK(matches("one two three\n", "one ... three\n"));
  CHECK(matches("one\n", "one\n..."));
  CHECK_FALSE(matches("one two\n", "one ... three\n"));
  CHECK_FALSE(matches("one\n", "one"));
}

}  // namespace
}  // namespace kernbench::test
