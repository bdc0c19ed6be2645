// A picture of schedules: when each rank computes what.

#pragma once

#include <span>
#include <string>

#include "benches/bench/row.h"

namespace kernbench::benches::pipeline {

// An SVG document with a lane for each rank of each point, all on one scale of time.  It takes the
// rows of the tables "step" and "action".
std::string draw_gantt(std::span<const Row> rows, const std::string& subtitle);

}  // namespace kernbench::benches::pipeline
