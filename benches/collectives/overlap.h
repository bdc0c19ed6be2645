// The bench `overlap`: what a collective and other work cost each other.

#pragma once

#include "benches/bench/bench.h"

namespace kernbench::benches::collectives {

BenchInfo overlap_bench();

}  // namespace kernbench::benches::collectives
