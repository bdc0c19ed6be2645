// What a decision record claims of the program, and what holds it.
//
// A block is a paragraph, or a table with the line that introduces it.  A block with a measured
// figure (a number with a unit of time, a percentage, "times" or "of the bound") names, in a code
// span, the command or the file that shows the figure today.  What stands under "## Refused" is
// history and need not.

#pragma once

#include <string>
#include <vector>

namespace kernbench::records {

// The figures of blocks that name neither a command nor a file, a figure for each block, in order.
std::vector<std::string> unheld_figures(const std::string& text);

// The paths below the repository's root that code spans name ("test/ccl/golden_test.cpp"), each
// once.
std::vector<std::string> named_paths(const std::string& text);

}  // namespace kernbench::records
