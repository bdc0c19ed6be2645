#pragma once

#include "benches/bench/bench.h"

namespace kernbench::benches::kernels {

BenchInfo kernels_bench();

}  // namespace kernbench::benches::kernels
