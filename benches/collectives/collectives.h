// The benches `collectives` and `ccl-allreduce`.

#pragma once

#include "benches/bench/bench.h"

namespace kernbench::benches {

// Register one of them alone; register_shipped_benches() registers all benches.  Throw UsageError
// KB-U006 if it is called again.
bool register_collectives();
bool register_ccl_allreduce();

}  // namespace kernbench::benches

namespace kernbench::benches::collectives {

BenchInfo collectives_bench();
BenchInfo ccl_allreduce_bench();

}  // namespace kernbench::benches::collectives
