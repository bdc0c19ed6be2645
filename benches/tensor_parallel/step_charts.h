// The charts of training steps, of their steps.csv.

#pragma once

#include <span>
#include <string>

#include "benches/bench/row.h"
#include "benches/figure/chart.h"

namespace kernbench::benches::tensor_parallel {

// Each function takes the rows that steps.csv has; `what` names what was measured.
// REQUIRES: there is a row

// The speed-up of a step over the number of ranks, beside the ideal speed-up.
figure::Chart strong_scaling_chart(std::span<const Row> steps, const std::string& what);

// Shows how a step's time is spent, as a stacked bar for each number of ranks.
figure::Chart step_time_chart(std::span<const Row> steps, const std::string& what);

}  // namespace kernbench::benches::tensor_parallel
