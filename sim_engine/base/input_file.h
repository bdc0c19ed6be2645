#pragma once

#include <filesystem>
#include <string>

#include "sim_engine/base/units.h"

namespace kernbench {

// The first `limit` + 1 bytes of a regular file (one more than the limit tells that it is larger).
// ConfigError KB-I001 with the system's reason if there is no such file or it is not a regular one;
// never blocks, also not on a FIFO.
std::string read_input_file(const std::filesystem::path& path, Bytes limit);

}  // namespace kernbench
