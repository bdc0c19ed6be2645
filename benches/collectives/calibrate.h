// The bench `calibrate`: published times of collectives beside simulated ones.

#pragma once

#include "benches/bench/bench.h"

namespace kernbench::benches::collectives {

BenchInfo calibrate_bench();

}  // namespace kernbench::benches::collectives
