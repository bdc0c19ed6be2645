// Lists on the command line.

#pragma once

#include <string_view>
#include <vector>

namespace kernbench::benches {

// The texts between the commas.  Throws UsageError KB-U012, which names `option` with its value, if
// a text is given twice.
std::vector<std::string_view> split_list(std::string_view option, std::string_view text);

}  // namespace kernbench::benches
