// The evaluation benches, each of which writes its CSV and its figures (ADR-0054).

#pragma once

#include "benches/bench/bench.h"

namespace kernbench::benches::evaluation {

BenchInfo milestone_1h_ccl();   // of all_reduce (ADR-0043)
BenchInfo milestone_1h_gemm();  // of GEMM (ADR-0044)

}  // namespace kernbench::benches::evaluation
