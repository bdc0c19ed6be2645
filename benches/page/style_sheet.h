#pragma once

#include <string_view>

namespace kernbench::benches::page {

// The page's style sheet: colours for light and dark, and the classes that drawings use.
std::string_view style_sheet();

}  // namespace kernbench::benches::page
