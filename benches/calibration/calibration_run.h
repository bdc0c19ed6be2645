// The work of `kernbench calibrate`.

#pragma once

#include <vector>

#include "benches/bench/bench.h"
#include "benches/calibration/parameters.h"

namespace kernbench::benches::calibration {

// Fits the parameters, if there are any, simulates all rows with what was fitted, prints both, and
// adds rows and files to the bench's results.  A parameter whose value says little fails a check of
// the bench.
void run_calibration(Bench& bench, const Calibration& calibration,
                     const std::vector<Parameter>& parameters);

}  // namespace kernbench::benches::calibration
