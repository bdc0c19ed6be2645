// The bench `moe`: a layer of experts that lie on several ranks, under loads.

#pragma once

#include "benches/bench/bench.h"

namespace kernbench::benches::moe {

BenchInfo moe_bench();

}  // namespace kernbench::benches::moe
