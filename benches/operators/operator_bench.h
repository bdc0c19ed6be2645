// `kernbench bench --case NAME`: the checks of an operator, then its times, CSV, traces and plots.

#pragma once

#include <string_view>
#include <vector>

#include "benches/bench/bench.h"

namespace kernbench::benches::operators {

// The case as a bench.  Its settings: case, dtype (f16, bf16, f32, several
// with commas, or all), save_path, plot,
// profile. In save_path/CASE/DTYPE:
//   CASE-DTYPE-{fwd,bwd}-perf.csv           a line for each size (perf_rows.h)
//   CASE-DTYPE-{fwd,bwd}-speedup.{csv,gp,svg,png} with `plot`, instead: batch 1 only
//   traces/trace_{fwd,bwd}_PROVIDER_N{tokens}.json    with `profile`: one PE's units, the largest
//                                                     dim, at most 10 MB
// Throws NumericsError KB-N040 before any time is shown if a check fails, IoError KB-I010 if the
// folder cannot be written.
BenchInfo make_bench(std::string_view case_name);

// "all", "f32", "f16,bf16"; fp16 and fp32 are f16 and f32.  Throws UsageError KB-U012 that names
// `option`.
std::vector<DType> parse_dtypes(std::string_view option, std::string_view text);

}  // namespace kernbench::benches::operators
