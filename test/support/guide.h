// A guide whose code is compiled and whose commands are run: what a test holds it to.
//
// In its sources the code that it shows stands between "// guide: begin" and "// guide: end".

#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace kernbench::test {

struct Guide {
  std::string english;  // paths
  std::string korean;
  std::vector<std::string> sources;
};

// Every piece of code in the guide is in the sources, and all that they mean for it is there.
void check_code(const Guide& guide, std::size_t least_pieces);

// The Korean guide shows the same code, files, commands and output.
void check_translation(const Guide& guide);

// The guide's files of a language by their names, which are in their first lines: "# my.yaml".
struct GuideFile {
  std::string name;
  std::string text;
};
std::vector<GuideFile> files_in(const Guide& guide, std::string_view language);

// Each command prints what the guide shows; "..." stands for any text.  `output_of` is given the
// words of a command, and returns what it prints.
using OutputOf = std::function<std::string(const std::vector<std::string>&)>;
void check_commands(const Guide& guide, std::size_t least_commands, const OutputOf& output_of);

bool matches(std::string_view text, std::string_view pattern);

// An argument of a command, where PREFIX is where kernbench is installed.
std::string in_this_tree(const std::string& argument);

}  // namespace kernbench::test
