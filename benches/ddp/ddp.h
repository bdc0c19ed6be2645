// kernbench run --bench ddp: what a training step over data parallel ranks hides of its
// communication, over bucket sizes (ADR-0225).

#pragma once

#include "benches/bench/bench.h"

namespace kernbench::benches::ddp {

BenchInfo ddp_bench();

}  // namespace kernbench::benches::ddp
