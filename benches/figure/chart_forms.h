// The files of charts/*.gp, which lie in the program.

#pragma once

#include <span>

#include "sim_engine/base/embedded_file.h"

namespace kernbench::benches::figure {

std::span<const EmbeddedFile> chart_forms();

}  // namespace kernbench::benches::figure
