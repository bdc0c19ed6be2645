// The pictures of the GEMM evaluation, from its rows.

#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "benches/evaluation/gemm_evaluation.h"
#include "sim_engine/topology/topology.h"

namespace kernbench::benches {

// Each function returns an SVG.

// Measured over theoretical time, a point for each row, with the line on which they are equal.
std::string agreement_figure(std::span<const Row> rows, const Topology& topology);

// Utilization of square products over their side, a curve for each placement.
std::string square_utilization_figure(std::span<const Row> rows, const Topology& topology);

// Utilization of a transformer's projections at the given number of tokens, a bar per placement.
std::string projection_figure(std::span<const Row> rows, const Topology& topology,
                              std::int64_t tokens);

// Rate per PE over arithmetic intensity (FLOP per byte of HBM traffic), with the roofline of a PE's
// array and its slice of HBM.
std::string roofline_figure(std::span<const Row> rows, const Topology& topology);

}  // namespace kernbench::benches
