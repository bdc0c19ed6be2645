// The bench `numerics`: how far sums over ranks are from exact ones, beside the bound that the
// order of their additions gives.

#pragma once

#include "benches/bench/bench.h"

namespace kernbench::benches::numerics {

BenchInfo numerics_bench();

}  // namespace kernbench::benches::numerics
