// The charts of the GEMM evaluation, of its summary.csv.

#pragma once

#include <cstdint>
#include <span>

#include "benches/evaluation/gemm_evaluation.h"
#include "benches/figure/chart.h"
#include "sim_engine/topology/topology.h"

namespace kernbench::benches::evaluation {

// Each function takes the rows that summary.csv has.  REQUIRES: there is one that it draws

// Measured over theoretical time, a point for each row, with the line on which they are equal.
figure::Chart agreement_chart(std::span<const Row> rows, const Topology& topology);

// Utilization of square products over their side, a curve for each placement.
figure::Chart square_utilization_chart(std::span<const Row> rows, const Topology& topology);

// Utilization of a transformer's projections at the given number of tokens, a bar per placement.
figure::Chart projection_chart(std::span<const Row> rows, const Topology& topology,
                               std::int64_t tokens);

// Rate per PE over arithmetic intensity (FLOP per byte of HBM traffic), with the roofline of a PE's
// array and its slice of HBM.
figure::Chart roofline_chart(std::span<const Row> rows, const Topology& topology);

}  // namespace kernbench::benches::evaluation
