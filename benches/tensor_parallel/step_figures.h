// Pictures of training steps, from their rows.

#pragma once

#include <span>
#include <string>

#include "benches/row.h"

namespace kernbench::benches {

// Each returns an SVG; `what` is what was measured.

// How much faster a step is with more ranks, beside what it would be if they shared all of it.
std::string strong_scaling_figure(std::span<const Row> steps, const std::string& what);

// What a step's time is spent with, a stacked bar for each number of ranks.
std::string step_time_figure(std::span<const Row> steps, const std::string& what);

}  // namespace kernbench::benches
