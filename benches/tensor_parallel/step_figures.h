// Pictures of training steps, from their rows.

#pragma once

#include <span>
#include <string>

#include "benches/bench/row.h"

namespace kernbench::benches {

// Each function returns an SVG; `what` names what was measured.

// The speed-up of a step over the number of ranks, beside the ideal speed-up.
std::string strong_scaling_figure(std::span<const Row> steps, const std::string& what);

// How a step's time is spent: a stacked bar for each number of ranks.
std::string step_time_figure(std::span<const Row> steps, const std::string& what);

}  // namespace kernbench::benches
