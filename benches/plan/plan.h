// `kernbench plan` shows the fastest ways to train a model on so many devices that fit into their
// memory (ADR-0225).

#pragma once

#include "benches/bench/bench.h"

namespace kernbench::benches::plan {

BenchInfo plan_bench();

}  // namespace kernbench::benches::plan
