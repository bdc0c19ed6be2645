#include "benches/evaluation/gemm_charts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <set>

#include "benches/bench/inputs.h"

namespace kernbench::benches::evaluation {

namespace {

using figure::Chart;
using Texts = std::vector<std::string>;

// "1 PE", "cube, 8 PEs", ...
std::string name_for_people(gemm::GemmOn on, const Topology& topology) {
  const int pes = topology.pe_count();
  switch (on) {
    case gemm::GemmOn::pe:
      return "1 PE";
    case gemm::GemmOn::cube:
      return fmt::format("cube, {} PEs", pes);
    case gemm::GemmOn::sip:
      return fmt::format("SIP, {} PEs", pes * topology.cube_count());
    case gemm::GemmOn::all:
      break;
  }
  return fmt::format("all, {} PEs", pes * topology.cube_count() * topology.system.sip_count);
}

// A chart with a series for each placement.  One without rows has no name, and so is in no legend.
Chart make_chart(std::string_view form, std::span<const Row> rows, const Topology& topology) {
  Texts on;
  Texts pes;
  for (const gemm::GemmOn one : gemm::kGemmOn) {
    const bool is_there = std::ranges::any_of(
        rows, [&](const Row& row) { return text_in(row, "on") == name_of(one); });
    on.emplace_back(name_of(one));
    pes.push_back(is_there ? name_for_people(one, topology) : "");
  }
  const GemmSpec& array = topology.pe.gemm;
  return {.form = form,
          .csv = "summary.csv",
          .subtitle = fmt::format("{}; {} x {} arrays, {}; f16", describe(topology), array.rows,
                                  array.columns, name_of(array.dataflow)),
          .values = {{"on", on}, {"pes", pes}}};
}

}  // namespace

Chart agreement_chart(std::span<const Row> rows, const Topology& topology) {
  const auto equal = std::ranges::count_if(rows, [](const Row& row) {
    return number_in(row, "theoretical_ns") == number_in(row, "time_ns");
  });
  Chart chart = make_chart("measured_vs_theoretical", rows, topology);
  chart.title = "GEMM: measured against theoretical time";
  chart.note = fmt::format(
      "{} of {} points are equal to the picosecond. Theory: ADR-0044; on several PEs a model.",
      equal, rows.size());
  chart.key_rows = 2;
  return chart;
}

Chart square_utilization_chart(std::span<const Row> rows, const Topology& topology) {
  Chart chart = make_chart("utilization_square", rows, topology);
  chart.title = "GEMM: utilization of the arrays over size";
  chart.subtitle += ", m = n = k";
  chart.note = "Of the peak of all PEs of the placement, the launch not counted.";
  return chart;
}

Chart projection_chart(std::span<const Row> rows, const Topology& topology, std::int64_t tokens) {
  const std::string suffix = fmt::format(", {} tokens", tokens);
  Texts shapes;  // "1024 qkv", each once
  for (const Row& row : rows) {
    const std::string& shape = text_in(row, "shape");
    const bool is_wanted =
        text_in(row, "family") == name_of(GemmFamily::projection) && shape.ends_with(suffix);
    const std::string name = is_wanted ? shape.substr(0, shape.size() - suffix.size()) : "";
    if (is_wanted && std::ranges::find(shapes, name) == shapes.end()) shapes.push_back(name);
  }
  Chart chart = make_chart("utilization_projections", rows, topology);
  chart.title = fmt::format("Projections of a transformer, {} tokens: utilization", tokens);
  chart.note = "Of the peak of all PEs of the placement, the launch not counted.";
  chart.values.emplace_back("tokens", static_cast<double>(tokens));
  chart.values.emplace_back("shape", shapes);
  return chart;
}

Chart roofline_chart(std::span<const Row> rows, const Topology& topology) {
  constexpr double kUnlimited = std::numeric_limits<double>::infinity();
  double peak = kUnlimited;
  std::set<double> hbm_gbs;  // of each PE: less where those that work share slices
  for (const Row& row : rows) {
    const double pes = number_in(row, "pes");
    peak = number_or_null(row, "peak_tflops").value_or(kUnlimited) / pes;
    hbm_gbs.insert(number_or_null(row, "hbm_gbs").value_or(kUnlimited) / pes);
  }
  Texts roofs;
  for (const double rate : hbm_gbs) roofs.push_back(fmt::format("roof, {:.4g} GB/s", rate));
  Chart chart = make_chart("roofline", rows, topology);
  chart.title = "GEMM: roofline of a PE";
  chart.note = fmt::format(
      "Roof: {:.4g} TFLOP/s of the array, {:.4g} GB/s of HBM for each PE. Traffic as counted, "
      "loads and stores.",
      peak, fmt::join(hbm_gbs, " or "));
  chart.key_rows = hbm_gbs.size() > 1 ? 3 : 2;
  chart.values.emplace_back("peak", peak);
  chart.values.emplace_back("hbm_gbs", std::vector<double>(hbm_gbs.begin(), hbm_gbs.end()));
  chart.values.emplace_back("roof_name", roofs);
  return chart;
}

}  // namespace kernbench::benches::evaluation
