// The evaluation of GEMM (ADR-0044): the points to simulate, and the result of one point.

#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "benches/bench/bench.h"
#include "benches/bench/row_cells.h"
#include "benches/evaluation/gemm_model.h"
#include "benches/gemm/gemm_run.h"

namespace kernbench::benches::evaluation {

enum class GemmFamily : std::uint8_t { square, tall, wide, gemv, projection };
inline constexpr std::array kGemmFamilies = {GemmFamily::square, GemmFamily::tall, GemmFamily::wide,
                                             GemmFamily::gemv, GemmFamily::projection};
std::string_view name_of(GemmFamily family);

// The projections of a transformer's layer: x [tokens, in] times weights [in, out].
struct Projection {
  std::string_view name;
  int in = 1;  // times the hidden size
  int out = 1;
};
inline constexpr std::array kProjections = {Projection{"qkv", 1, 3}, Projection{"out", 1, 1},
                                            Projection{"up", 1, 4}, Projection{"down", 4, 1}};
inline constexpr std::array<std::int64_t, 3> kHiddenSizes = {1024, 4096, 8192};
inline constexpr std::array<std::int64_t, 2> kTokenCounts = {32, 2048};

struct GemmShape {
  GemmFamily family = GemmFamily::square;
  std::string name;  // "1024 qkv, 2048 tokens"
  sim::GemmSize size;
};

// All shapes of the given families.
std::vector<GemmShape> gemm_shapes(std::span<const GemmFamily> families);

// Simulates one product in f16, with data unless it is too large to compute all its elements.
// Columns: family, shape, those of to_row(GemmRow), theoretical_ns, theoretical_window_ns,
// theoretical_gemm_count, theoretical_hbm_bytes, hbm_gbs.
Row simulate(PointContext& point, const GemmShape& shape, gemm::GemmOn on);

// Simulates every shape on every placement.
std::vector<Row> evaluate_gemm(Bench& bench, std::span<const GemmShape> shapes,
                               std::span<const gemm::GemmOn> on, bool reuse);

// The expected result of run_gemm(): the times of the slowest PE, and counts over all PEs.  Where
// PEs share operands, the time is no less than the roofline, and each element is loaded once.
GemmPrediction predict(const Topology& topology, const gemm::GemmRow& row);

// True if all computed elements are right, and the figures equal the theoretical ones, or, where
// the theory is a bound, are no less.
bool is_right(const Row& row);

}  // namespace kernbench::benches::evaluation
