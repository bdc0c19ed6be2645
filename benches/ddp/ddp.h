// `kernbench run --bench ddp` shows how much of its communication a training step over data
// parallel ranks hides, over bucket sizes (ADR-0225).

#pragma once

#include "benches/bench/bench.h"

namespace kernbench::benches::ddp {

BenchInfo ddp_bench();

}  // namespace kernbench::benches::ddp
