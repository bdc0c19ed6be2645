// The charts of the all_reduce evaluation, of its CSV files.

#pragma once

#include <span>

#include "benches/evaluation/ccl_evaluation.h"
#include "benches/evaluation/fsim_reference.h"
#include "benches/figure/chart.h"

namespace kernbench::benches::evaluation {

// Each function takes the rows that its CSV file has.

// Latency over size on each topology, with the theory and the lower bound: summary.csv.
figure::Chart latency_chart(std::span<const Row> latency);

// Latency over size where the queues lie in TCM, SRAM or HBM, with the lower bound:
// buffer_kinds.csv.
figure::Chart buffer_kind_chart(std::span<const Row> buffer_kinds);

// Latency over size on each topology beside another simulator's figure, on a broken axis:
// summary.csv.
figure::Chart fsim_chart(std::span<const Row> latency, const FsimReference& reference);

}  // namespace kernbench::benches::evaluation
