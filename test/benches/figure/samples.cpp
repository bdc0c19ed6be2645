#include "test/benches/figure/samples.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "benches/figure/bar_chart.h"
#include "benches/figure/line_chart.h"
#include "benches/figure/topology_diagram.h"

namespace kernbench::test {

using namespace benches::figure;

namespace {

const std::vector<double> kSizes = {8,    32,   64,   128,   512,   1024,
                                    2048, 4096, 8192, 16384, 32768, 49152};

// start + elements / rate, in microseconds.
std::vector<Point> curve(double start, double rate) {
  std::vector<Point> points;
  for (const double size : kSizes) points.push_back({size, start + size / rate});
  return points;
}

Axis sizes() {
  return {.title = "elements per cube (f16)",
          .scale = Scale::log2,
          .labels = Labels::binary,
          .ticks = kSizes};
}

LineChart latency(Legend legend) {
  return {.title = "All-reduce over 6 SIPs: latency over size",
          .subtitle =
              "intercube_allreduce, f16, tcm buffers, 16 cubes per SIP; critical path of "
              "the slowest PE",
          .x = sizes(),
          .y = {.title = "latency (µs)"},
          .series = {{.name = "ring_1d", .points = curve(6.4, 3150)},
                     {.name = "torus_2d 2 × 3", .points = curve(5.1, 4060)},
                     {.name = "mesh_2d_no_wrap 2 × 3", .points = curve(5.9, 3500)},
                     {.name = "lower bound, torus_2d",
                      .points = curve(2.6, 5200),
                      .kind = SeriesKind::bound}},
          .legend = legend};
}

LineChart latency_log() {
  LineChart chart = latency(Legend::above);
  chart.title += ", logarithmic";
  chart.x.title = "size per cube";
  chart.x.labels = Labels::bytes;
  for (double& tick : chart.x.ticks) tick *= 2;
  for (Series& series : chart.series) {
    for (Point& point : series.points) point.x *= 2;
  }
  chart.y.scale = Scale::log10;
  return chart;
}

LineChart against_fsim() {
  LineChart chart = latency(Legend::beside);
  chart.title = "Model against FSIM";
  chart.subtitle = "all-reduce of up to 96 KiB per cube on 6 SIPs; FSIM: one device";
  chart.series.pop_back();
  chart.references = {{"FSIM, one device: 366 µs", 366}};
  chart.y.cut = cut_between(22, 366);
  chart.note = "FSIM's figure is an external measurement (one device, 96 KiB).";
  return chart;
}

BarChart fsim_bars() {
  return {.title = "Model against FSIM at 96 KiB per cube",
          .subtitle = "all-reduce, f16, tcm buffers; the model has 6 SIPs, FSIM one",
          .y = {.title = "latency (µs)", .cut = cut_between(22, 366)},
          .groups = {"ring_1d", "torus_2d 2 × 3", "mesh_2d_no_wrap 2 × 3", "FSIM, one device"},
          .series = {{.name = "latency", .values = {22.0, 17.2, 19.9, 366}}},
          .reference_groups = 1,
          .note = "FSIM's figure is an external measurement."};
}

BarChart buffer_kinds() {
  return {.title = "Where the IPCQ buffers lie",
          .subtitle = "intercube_allreduce on torus_2d 3 × 2 (6 SIPs), f16",
          .x_title = "elements per cube",
          .y = {.title = "latency (µs)"},
          .groups = {"8", "128", "1 Ki", "4 Ki", "16 Ki", "48 Ki"},
          .series = {{.name = "tcm", .values = {5.13, 5.2, 5.4, 6.1, 9.2, 17.2}},
                     {.name = "sram", .values = {5.4, 5.5, 5.8, 6.7, 10.4, 19.9}},
                     {.name = "hbm", .values = {6.9, 7.0, 7.3, 8.6, 13.1, 24.6}}},
          .references = {{"lower bound at 48 Ki", 13.0}}};
}

BarChart many_shapes() {
  BarChart chart{
      .title = "GEMM: measured against theoretical",
      .subtitle = "one PE, f16, output stationary, 32 × 32 array at 1.5 GHz",
      .x_title = "M × N × K",
      .y = {.title = "share of the peak (%)", .max = 100},
      .series = {{.name = "measured"}, {.name = "theoretical"}, {.name = "memory bound"}}};
  for (int i = 0; i < 11; ++i) {
    chart.groups.push_back(fmt::format("{}×{}×{}", 64 << i / 2, 64 << i / 3, 128 << i / 2));
    chart.series[0].values.push_back(31.5 + i * 6.1);
    chart.series[1].values.push_back(33.0 + i * 6.3);
    chart.series[2].values.push_back(i == 4 ? std::numeric_limits<double>::quiet_NaN() : 90 - i);
  }
  return chart;
}

LineChart roofline() {
  LineChart chart{.title = "Roofline of one PE",
                  .subtitle = "f16, 32 × 32 array at 1.5 GHz, HBM slice of 102.4 GB/s",
                  .x = {.title = "arithmetic intensity (FLOP/B)", .scale = Scale::log10},
                  .y = {.title = "rate (TFLOP/s)", .scale = Scale::log10},
                  .series = {{.name = "102.4 GB/s, then 3.07 TFLOP/s",
                              .points = {{0.5, 0.0512}, {30, 3.072}, {1000, 3.072}},
                              .kind = SeriesKind::bound}}};
  Series square{.name = "square", .kind = SeriesKind::points};
  Series gemv{.name = "GEMV", .kind = SeriesKind::points};
  Series projections{.name = "projections", .kind = SeriesKind::points};
  for (int n = 64; n <= 2048; n *= 2) {
    square.points.push_back(
        {n / 3.0, std::min(3.072, n / 3.0 * 0.1024) * 0.9, fmt::format("{}³", n)});
    gemv.points.push_back({1.0 - 8.0 / n, (1.0 - 8.0 / n) * 0.0968,
                           n == 64 || n == 2048 ? fmt::format("{} × 1", n) : ""});
  }
  projections.points = {
      {110, 2.6, "Q, K, V"}, {118, 2.7, "output"}, {240, 2.9, "up"}, {241, 2.85, "down"}};
  chart.series.insert(chart.series.end(), {square, gemv, projections});
  return chart;
}

LineChart speed_up() {
  LineChart chart{.title = "rms, forward: speed-up over naive",
                  .subtitle = "bf16, batch 1, hidden 4096",
                  .x = {.title = "sequence length", .scale = Scale::log2},
                  .y = {.title = "speed-up (naive / provider)"},
                  .references = {{"geometric mean, fused: 3.84", 3.84}, {"naive", 1}}};
  Series fused{.name = "fused"};
  Series compiled{.name = "compiled"};
  for (int n = 1024; n <= 8192; n *= 2) {
    fused.points.push_back({static_cast<double>(n), 4.1 - 600.0 / n});
    compiled.points.push_back({static_cast<double>(n), 2.6 - 500.0 / n});
  }
  chart.series = {fused, compiled};
  return chart;
}

// Eight algorithms, one of them with an outlier that the axis is cut for.
LineChart many_lines() {
  LineChart chart{.title = "Every algorithm, with an outlier",
                  .subtitle = "ring of 16 PEs in one cube, f32",
                  .x = {.title = "size", .scale = Scale::log2, .labels = Labels::bytes},
                  .y = {.title = "latency (µs)", .cut = AxisCut{50, 900}},
                  .legend = Legend::beside};
  for (int i = 0; i < 8; ++i) {
    Series series{.name = fmt::format("algorithm {}", i)};
    for (int n = 64; n <= 65536; n *= 4) {
      series.points.push_back({static_cast<double>(n), 1.0 + i + n / (1900.0 + 300 * i)});
    }
    chart.series.push_back(series);
  }
  chart.series[5].points[2].y = 950;
  return chart;
}

}  // namespace

std::vector<SampleFigure> sample_figures() {
  std::vector<SampleFigure> figures = {
      {"latency", to_svg(latency(Legend::above))},
      {"latency_beside", to_svg(latency(Legend::beside))},
      {"latency_log", to_svg(latency_log())},
      {"fsim", to_svg(against_fsim())},
      {"fsim_bars", to_svg(fsim_bars())},
      {"buffer_kinds", to_svg(buffer_kinds())},
      {"shapes", to_svg(many_shapes())},
      {"roofline", to_svg(roofline())},
      {"speed_up", to_svg(speed_up())},
      {"many_lines", to_svg(many_lines())},
      {"empty", to_svg(LineChart{.title = "Nothing yet", .series = {{.name = "a"}}})},
  };
  for (const std::string name :
       {"default", "tiny", "ring_1d_6", "torus_2d_2x3", "torus_2d_3x2", "mesh_2d_no_wrap_2x3",
        "scale_64", "scale_1024", "zero_overhead"}) {
    const Topology topology = Topology::load(KERNBENCH_ROOT "/topologies/" + name + ".yaml");
    figures.push_back({"topology_" + name, topology_diagram(topology)});
  }
  return figures;
}

}  // namespace kernbench::test
