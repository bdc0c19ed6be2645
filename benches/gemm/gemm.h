// The bench `gemm`: one matrix product beside its roofline.

#pragma once

#include "benches/bench/bench.h"

namespace kernbench::benches::gemm {

BenchInfo gemm_bench();

}  // namespace kernbench::benches::gemm
