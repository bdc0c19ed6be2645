// The pictures of the all_reduce evaluation, from its rows.

#pragma once

#include <span>
#include <string>
#include <string_view>

#include "benches/evaluation/ccl_evaluation.h"
#include "benches/evaluation/fsim_reference.h"

namespace kernbench::benches {

// Each function returns an SVG.

// Latency over size on one topology, with the lower bound.
std::string latency_figure(std::span<const Row> latency, std::string_view topology);

// Latency over size where the queues lie in TCM, SRAM or HBM, with the lower bound.
std::string buffer_kind_figure(std::span<const Row> buffer_kinds);

// The latency of the largest size on each topology beside another simulator's figure, on a broken
// axis.
std::string fsim_figure(std::span<const Row> latency, const FsimReference& reference);

}  // namespace kernbench::benches
