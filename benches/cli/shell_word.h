#pragma once

#include <string>

namespace kernbench::benches::cli {

// The text as one word of a shell, in quotes where it needs them.
std::string shell_word(const std::string& text);

}  // namespace kernbench::benches::cli
