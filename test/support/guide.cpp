#include "test/support/guide.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <sstream>

namespace kernbench::test {

namespace {

using Lines = std::vector<std::string>;

Lines read_lines(const std::string& path) {
  std::ifstream text(path);
  REQUIRE(text.is_open());
  Lines lines;
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

struct Block {
  std::string language;
  Lines lines;

  friend bool operator==(const Block&, const Block&) = default;
};

// The blocks between ```language and ``` of a guide.
std::vector<Block> read_blocks(const std::string& path) {
  std::vector<Block> blocks;
  bool inside = false;
  for (const std::string& line : read_lines(path)) {
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

std::vector<Lines> read_snippets(const std::vector<std::string>& sources) {
  std::vector<Lines> all;
  for (const std::string& path : sources) {
    bool inside = false;
    for (const std::string& line : read_lines(path)) {
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

// A command of a console block, and the lines that follow it.
struct Run {
  std::string command;
  std::string expected;
};

std::vector<Run> read_runs(const std::string& path) {
  std::vector<Run> runs;
  for (const Block& block : read_blocks(path)) {
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

}  // namespace

void check_code(const Guide& guide, std::size_t least_pieces) {
  const std::vector<Lines> compiled = read_snippets(guide.sources);
  std::vector<Lines> shown;
  for (const Block& block : read_blocks(guide.english)) {
    if (block.language != "cpp") continue;
    CAPTURE(block.lines.front());
    CHECK(std::ranges::count(compiled, block.lines) == 1);
    shown.push_back(block.lines);
  }
  for (const Lines& snippet : compiled) {
    CAPTURE(snippet.front());
    CHECK(std::ranges::count(shown, snippet) == 1);
  }
  CHECK(shown.size() >= least_pieces);
}

void check_translation(const Guide& guide) {
  const std::vector<Block> english = read_blocks(guide.english);
  const std::vector<Block> korean = read_blocks(guide.korean);
  REQUIRE(english.size() == korean.size());
  for (std::size_t i = 0; i < english.size(); ++i) {
    CAPTURE(i, english[i].lines.front());
    CHECK(english[i] == korean[i]);
  }
}

std::vector<GuideFile> files_in(const Guide& guide, std::string_view language) {
  std::vector<GuideFile> files;
  for (const Block& block : read_blocks(guide.english)) {
    if (block.language != language) continue;
    GuideFile file{block.lines.front().substr(2), ""};
    for (const std::string& line : block.lines) file.text += line + "\n";
    files.push_back(std::move(file));
  }
  return files;
}

void check_commands(const Guide& guide, std::size_t least_commands, const OutputOf& output_of) {
  const std::vector<Run> runs = read_runs(guide.english);
  CHECK(runs.size() >= least_commands);
  for (const Run& run : runs) {
    std::istringstream text(run.command);
    std::vector<std::string> words;
    for (std::string word; text >> word;) words.push_back(word);
    const std::string output = output_of(words);
    CAPTURE(run.command, run.expected, output);
    CHECK(matches(output, run.expected));
  }
}

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

std::string in_this_tree(const std::string& argument) {
  const std::string installed = "PREFIX/share/kernbench";
  return argument.starts_with(installed) ? KERNBENCH_ROOT + argument.substr(installed.size())
                                         : argument;
}

}  // namespace kernbench::test
