// Rows of a matrix product, for people and for machines.

#pragma once

#include <string>

#include "benches/bench/console.h"
#include "benches/bench/row.h"
#include "benches/gemm/gemm_run.h"

namespace kernbench::benches::gemm {

// m, n, k, dtype, pes, time_ns, tflops, peak_tflops, utilization, hbm_bytes, bound, roofline_ns,
// wrong; then on, cut, dataflow, tile_m, tile_n, tile_k, window_ns, gemm_count.
Row to_row(const GemmRow& row);

// A table of one such row.
std::string to_text(const Row& row, const Console& console);

}  // namespace kernbench::benches::gemm
