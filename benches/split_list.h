// Lists as the command line has them.

#pragma once

#include <string_view>
#include <vector>

namespace kernbench::benches {

// What stands between the commas.  Throws UsageError KB-U012, which names `option` with its value,
// if something is given twice.
std::vector<std::string_view> split_list(std::string_view option, std::string_view text);

}  // namespace kernbench::benches
