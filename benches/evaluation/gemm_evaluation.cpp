#include "benches/evaluation/gemm_evaluation.h"

#include <fmt/format.h>

#include <algorithm>

#include "benches/bench/cell.h"
#include "benches/evaluation/gemm_model.h"
#include "benches/gemm/gemm_table.h"

namespace kernbench::benches::evaluation {

namespace {

// Above this, computing the values of a product would take longer than timing it.
constexpr std::int64_t kMostProducts = std::int64_t{1} << 30;
constexpr std::int64_t kMostElements = std::int64_t{1} << 25;  // of the three matrices

bool is_computed(const sim::GemmSize& size) {
  const auto& [m, n, k] = size;
  return m * n <= kMostProducts / k && m * k + k * n + m * n <= kMostElements;
}

void add_squares(std::vector<GemmShape>& shapes) {
  for (std::int64_t side = 64; side <= 4096; side *= 2) {
    shapes.push_back({GemmFamily::square, fmt::format("{}", side), {side, side, side}});
  }
}

void add_projections(std::vector<GemmShape>& shapes) {
  for (const std::int64_t tokens : kTokenCounts) {
    for (const std::int64_t hidden : kHiddenSizes) {
      for (const auto& [name, in, out] : kProjections) {
        shapes.push_back({GemmFamily::projection,
                          fmt::format("{} {}, {} tokens", hidden, name, tokens),
                          {tokens, out * hidden, in * hidden}});
      }
    }
  }
}

void add(std::vector<GemmShape>& shapes, GemmFamily family, const sim::GemmSize& size) {
  shapes.push_back({family, fmt::format("{} x {} x {}", size.m, size.n, size.k), size});
}

void add_family(std::vector<GemmShape>& shapes, GemmFamily family) {
  switch (family) {
    case GemmFamily::square:
      return add_squares(shapes);
    case GemmFamily::tall:
      for (const sim::GemmSize& size :
           {sim::GemmSize{4096, 64, 512}, {16'384, 256, 256}, {65'536, 128, 128}}) {
        add(shapes, family, size);
      }
      return;
    case GemmFamily::wide:
      for (const sim::GemmSize& size :
           {sim::GemmSize{64, 4096, 512}, {256, 16'384, 256}, {128, 65'536, 128}}) {
        add(shapes, family, size);
      }
      return;
    case GemmFamily::gemv:
      for (const sim::GemmSize& size :
           {sim::GemmSize{1, 1024, 1024}, {1, 4096, 4096}, {1, 16'384, 4096}}) {
        add(shapes, family, size);
      }
      return;
    case GemmFamily::projection:
      return add_projections(shapes);
  }
}

// True if the theory is exact and not only a lower bound (gemm_model.h): one PE computes on
// operands of its own, writes do not turn its slice of HBM, and rows lie at most a page apart.
bool is_theory_exact(const Topology& topology, const gemm::GemmRow& row) {
  const sim::GemmSize& size = row.input.size;
  const Bytes longest_row = std::max(size.k, size.n) * size_of(row.input.dtype);
  if (topology.cube.hbm.turn_around > Time{0}) return false;
  return row.input.placement.on == gemm::GemmOn::pe && longest_row <= topology.pe.mmu_page;
}

bool agree(const Row& row, std::string_view measured, std::string_view theoretical) {
  return number_in(row, measured) == number_in(row, theoretical);
}

}  // namespace

GemmPrediction predict(const Topology& topology, const gemm::GemmRow& row) {
  // Operands of a product on one PE lie with it, those of others are cut over PEs.
  const bool shares_operands = row.input.placement.on != gemm::GemmOn::pe;
  GemmPrediction all;
  for (const gemm::GemmShare& share : row.shares) {
    const GemmPrediction one = predict_gemm(topology, {share.size, share.tile, row.input.dtype,
                                                       share.a, share.b, share.c, shares_operands});
    all.time = std::max(all.time, one.time);
    all.window = std::max(all.window, one.window);
    all.gemm_count += one.gemm_count;
    all.hbm_loaded += one.hbm_loaded;
    all.hbm_stored += one.hbm_stored;
  }
  if (!shares_operands) return all;
  const auto& [m, n, k] = row.input.size;
  all.hbm_loaded = (m + n) * k * size_of(row.input.dtype);  // each element once
  all.time = std::max(all.time, row.roofline());
  return all;
}

std::string_view name_of(GemmFamily family) {
  constexpr std::array<std::string_view, kGemmFamilies.size()> kNames = {"square", "tall", "wide",
                                                                         "gemv", "projection"};
  return kNames.at(static_cast<std::size_t>(family));
}

std::vector<GemmShape> gemm_shapes(std::span<const GemmFamily> families) {
  std::vector<GemmShape> shapes;
  for (const GemmFamily family : families) add_family(shapes, family);
  return shapes;
}

Row simulate(PointContext& point, const GemmShape& shape, gemm::GemmOn on) {
  const Bench& bench = point.bench();
  const auto torch =
      point.make_context(bench.topology(), {.ccl = bench.ccl(), .data = is_computed(shape.size)});
  const gemm::GemmRow measured =
      gemm::run_gemm(*torch, {.size = shape.size, .placement = {.on = on}, .seed = bench.seed()});
  const GemmPrediction theory = predict(bench.topology(), measured);
  Row row;
  row.set("family", name_of(shape.family)).set("shape", shape.name);
  const Row columns = to_row(measured);
  for (const auto& [column, cell] : columns.cells()) row.set_cell(column, cell);
  const bool is_exact = is_theory_exact(bench.topology(), measured);
  const Time modelled = measured.estimate + measured.start_spread;
  row.set("theoretical_ns", to_ns(is_exact ? theory.time : std::max(modelled, theory.time)))
      .set("lower_bound_ns", to_ns(theory.time))
      .set("theoretical_window_ns", to_ns(theory.window))
      .set("theoretical_gemm_count", theory.gemm_count)
      .set("theoretical_hbm_bytes", theory.hbm_loaded + theory.hbm_stored)
      .set("theory", is_exact ? "exact" : "model")
      .set("hbm_gbs", measured.hbm_gbs);
  point.check(is_right(row));
  return row;
}

std::vector<Row> evaluate_gemm(Bench& bench, std::span<const GemmShape> shapes,
                               std::span<const gemm::GemmOn> on, bool reuse) {
  Sweep sweep(bench, "gemm");
  sweep.keep_journal(reuse);
  for (const gemm::GemmOn placement : on) {
    for (const GemmShape& shape : shapes) {
      sweep.add(
          fmt::format("{} {} on {}", name_of(shape.family), shape.name, name_of(placement)),
          [shape, placement](PointContext& point) { return simulate(point, shape, placement); });
    }
  }
  return sweep.run();
}

bool is_right(const Row& row) {
  const Cell* wrong = row.find("wrong");
  const bool has_wrong =
      std::holds_alternative<std::int64_t>(*wrong) && number_in(row, "wrong") > 0;
  if (has_wrong || !agree(row, "gemm_count", "theoretical_gemm_count")) return false;
  if (text_in(row, "theory") == "exact") {
    return agree(row, "hbm_bytes", "theoretical_hbm_bytes") &&
           agree(row, "time_ns", "theoretical_ns") &&
           agree(row, "window_ns", "theoretical_window_ns");
  }
  const auto is_at_least = [&](std::string_view measured, std::string_view theoretical) {
    return number_in(row, measured) >= number_in(row, theoretical);
  };
  return is_at_least("hbm_bytes", "theoretical_hbm_bytes") &&
         is_at_least("time_ns", "lower_bound_ns");
}

}  // namespace kernbench::benches::evaluation
