#pragma once

#include <string>

#include "runtime/profiler/profile.h"

namespace kernbench::benches::page {

// The critical path as a strip over time, coloured by cause, and its causes and places as a table.
// Edges that are too short to be seen are drawn with their neighbours, in the colour of the
// longest.
std::string path_strip(const runtime::Profile& profile);

}  // namespace kernbench::benches::page
