// stragglers: what faults of machines cost a training step, and whose they are.

#pragma once

#include "benches/bench/bench.h"

namespace kernbench::benches::stragglers {

BenchInfo stragglers_bench();

}  // namespace kernbench::benches::stragglers
