#pragma once

#include <filesystem>
#include <string>

#include "sim_engine/base/units.h"

namespace kernbench {

// Reads the first `limit` + 1 bytes of a regular file (the extra byte shows that it is too large).
// Throws ConfigError KB-I001 with the system's reason if the file does not exist or is not a
// regular one.  It never blocks, not even on a FIFO.
std::string read_input_file(const std::filesystem::path& path, Bytes limit);

}  // namespace kernbench
