// The texts of charts/*.gp, which lie in the program.

#pragma once

#include <string_view>

namespace kernbench::benches::figure {

// REQUIRES: there is a form of that name
std::string_view chart_form(std::string_view name);

}  // namespace kernbench::benches::figure
