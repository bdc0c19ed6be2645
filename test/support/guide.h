// Checks of a guide whose code is compiled and whose commands are run.
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

// Checks that every piece of code in the guide is in the sources, and that all code marked for the
// guide is in the guide.
void check_code(const Guide& guide, std::size_t least_pieces);

// Checks that the Korean guide shows the same code, files, commands and output.
void check_translation(const Guide& guide);

// The guide's files of a language by their names, which are in their first lines: "# my.yaml".
struct GuideFile {
  std::string name;
  std::string text;
};
std::vector<GuideFile> files_in(const Guide& guide, std::string_view language);

// Checks that each command prints what the guide shows; "..." stands for any text.  `output_of`
// gets the words of a command and returns its output.
using OutputOf = std::function<std::string(const std::vector<std::string>&)>;
void check_commands(const Guide& guide, std::size_t least_commands, const OutputOf& output_of);

bool matches(std::string_view text, std::string_view pattern);

// An argument of a command for this source tree; PREFIX in the guide is where kernbench is
// installed.
std::string in_this_tree(const std::string& argument);

}  // namespace kernbench::test
