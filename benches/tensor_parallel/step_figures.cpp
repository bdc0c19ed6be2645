#include "benches/tensor_parallel/step_figures.h"

#include <fmt/format.h>

#include <vector>

#include "benches/bench/row_cells.h"
#include "benches/figure/bar_chart.h"
#include "benches/figure/line_chart.h"

namespace kernbench::benches {

namespace {

using figure::Point;

constexpr std::string_view kTitle = "Training step over tensor parallel ranks";

}  // namespace

std::string strong_scaling_figure(std::span<const Row> steps, const std::string& what) {
  const double first_tp = number_in(steps.front(), "tp");
  const double first_step = number_in(steps.front(), "step_ns");
  std::vector<Point> measured;
  std::vector<Point> ideal;
  std::vector<double> ticks;
  for (const Row& row : steps) {
    const double tp = number_in(row, "tp");
    measured.push_back({tp, first_step / number_in(row, "step_ns")});
    ideal.push_back({tp, tp / first_tp});
    ticks.push_back(tp);
  }
  return figure::to_svg(figure::LineChart{
      .title = fmt::format("{}: strong scaling", kTitle),
      .subtitle = what,
      .x = {.title = "ranks (tp), one on each SIP", .scale = figure::Scale::log2, .ticks = ticks},
      .y = {.title = fmt::format("speed-up over tp {:.0f}", first_tp),
            .scale = figure::Scale::log2},
      .series = {{.name = "measured", .points = std::move(measured)},
                 {.name = "ideal", .points = std::move(ideal), .kind = figure::SeriesKind::bound}},
      .note =
          "Ideal: ranks share all of a step, and communication takes no time.  Each has as many "
          "PEs at every tp."});
}

std::string step_time_figure(std::span<const Row> steps, const std::string& what) {
  std::vector<std::string> groups;
  figure::BarSeries compute{.name = "compute alone"};
  figure::BarSeries hidden{.name = "compute and communication"};
  figure::BarSeries exposed{.name = "communication alone (exposed)"};
  figure::BarSeries idle{.name = "neither (launches)"};
  for (const Row& row : steps) {
    const double step = number_in(row, "step_ns");
    const auto percent = [&](double ns) { return 100 * ns / step; };
    const double overlapped = number_in(row, "communication_ns") - number_in(row, "exposed_ns");
    groups.push_back(fmt::format("tp {:.0f}: {:.4g} µs", number_in(row, "tp"), step / 1e3));
    compute.values.push_back(percent(number_in(row, "compute_ns") - overlapped));
    hidden.values.push_back(percent(overlapped));
    exposed.values.push_back(percent(number_in(row, "exposed_ns")));
    idle.values.push_back(percent(number_in(row, "idle_ns")));
  }
  return figure::to_svg(figure::BarChart{
      .title = fmt::format("{}: what its time is spent with", kTitle),
      .subtitle = what,
      .y = {.title = "share of the step (%)", .max = 100},
      .groups = std::move(groups),
      .series = {std::move(compute), std::move(hidden), std::move(exposed), std::move(idle)},
      .bars = figure::Bars::stacked,
      .note = "Of the rank that takes longest.  Communication: one of its collectives is under "
              "way; compute: a kernel of the model runs on its SIP."});
}

}  // namespace kernbench::benches
