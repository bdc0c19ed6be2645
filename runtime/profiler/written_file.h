#pragma once

#include <string>
#include <string_view>

namespace kernbench::runtime {

// Writes a file that appears complete or not at all.  Throws IoError KB-I010.
void write_file(const std::string& path, std::string_view text);

}  // namespace kernbench::runtime
