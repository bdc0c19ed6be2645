#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "benches/figure/grid_drawing.h"
#include "benches/figure/number_text.h"
#include "benches/figure/panel.h"
#include "benches/figure/text.h"

namespace kernbench::benches::figure {

namespace {

constexpr double kSmallLine = kSmallSize * kLineHeight;

std::string to_text(Frequency clock) {
  if (clock.is_unlimited()) return "unlimited";
  return rounded_text(static_cast<double>(clock.per_second) / 1e9) + " GHz";
}

std::string capacity_text(Bytes bytes) {
  return bytes_text(static_cast<double>(bytes));
}

// Draws a box with centred lines of text, the first one bold.
void draw_box(SvgWriter& svg, const Box& box, const std::vector<std::string>& lines) {
  svg.rectangle(box, kUnitFill, {.colour = kFaintInk}, 3);
  double y = box.centre().y - kSmallLine * static_cast<double>(lines.size() - 1) / 2;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const bool is_name = i == 0;
    const double size = fitting_size(lines[i], kSmallSize, box.w - 6, is_name);
    svg.text({box.centre().x, baseline(y, size)}, lines[i],
             {.size = size, .anchor = Anchor::middle, .bold = is_name});
    y += kSmallLine;
  }
}

void join(SvgWriter& svg, const Box& one, const Box& other, const Stroke& stroke) {
  svg.line(one.centre(), other.centre(), stroke);
}

// One of the 3 x 3 places of an area.
Box place(const Box& area, int column, int row, double middle_width, double gap) {
  const double side = (area.w - middle_width - 2 * gap) / 2;
  const double h = (area.h - 2 * gap) / 3;
  const double x = column == 0 ? 0 : column == 1 ? side + gap : side + gap + middle_width + gap;
  return {area.x + x, area.y + row * (h + gap), column == 1 ? middle_width : side, h};
}

std::vector<std::string> gemm_lines(const GemmSpec& gemm) {
  std::vector<std::string> lines = {"PE_GEMM", fmt::format("{} × {}", gemm.rows, gemm.columns),
                                    to_text(gemm.clock)};
  if (gemm.clock.is_unlimited()) return lines;
  const double peak =  // a multiplication and an addition per cell and cycle
      2.0 * gemm.rows * gemm.columns * static_cast<double>(gemm.clock.per_second) / 1e12;
  lines.push_back(rounded_text(peak) + " TFLOP/s");
  return lines;
}

struct Corner {
  int column;
  int row;
};

Corner parse_corner(std::string_view name) {
  return {name.ends_with('W') ? 0 : 2, name.starts_with('N') ? 0 : 2};
}

// Draws the PEs of one corner in as square a grid as possible.
void draw_pes(SvgWriter& svg, const Box& area, int first, int count, int total) {
  constexpr double kGap = 5;
  const int columns = count <= 3 ? 1 : static_cast<int>(std::ceil(std::sqrt(count)));
  const int rows = (count + columns - 1) / columns;
  const double w = (area.w - (columns - 1) * kGap) / columns;
  const double h = std::min(44.0, (area.h - (rows - 1) * kGap) / rows);
  const double top = area.centre().y - (rows * h + (rows - 1) * kGap) / 2;
  const GridStyle style{"PE", kPeFill, kPeColour, kNocLink};
  if (count > 1) {
    svg.rectangle({area.x - kGap, top - kGap, area.w + 2 * kGap, rows * (h + kGap) + kGap}, kPaper,
                  {.colour = kPeColour}, 5);
  }
  for (int i = 0; i < count; ++i) {
    draw_unit(svg, {area.x + i % columns * (w + kGap), top + i / columns * (h + kGap), w, h},
              first + i, total, style);
  }
}

std::string share_of_peak(const HbmSpec& hbm) {
  return hbm.efficiency.is_whole() ? "" : fmt::format("at {} %, ", hbm.efficiency.millionths / 1e4);
}

}  // namespace

void draw_cube(SvgWriter& svg, const Panel& panel, const Topology& topology) {
  const Topology::Cube& cube = topology.cube;
  const bool has_ways_of_corners = cube.corner != LinkSpec{};
  const Box inside = panel.inside(has_ways_of_corners ? 2 : 1);
  const Box area{inside.x + 4, inside.y + 4, inside.w - 8, inside.h - 8};
  const auto at = [&](int column, int row) { return place(area, column, row, 146, 20); };
  const Box noc = at(1, 1);
  for (const Box& other : {at(1, 0), at(1, 2), at(0, 1), at(2, 1)}) {
    join(svg, noc, other, {.colour = kFaintInk, .width = 2.5});
  }
  for (const std::string& name : cube.corners) {
    const Corner corner = parse_corner(name);
    join(svg, noc, at(corner.column, corner.row), kNocLink);
  }
  int first = 0;
  for (const std::string& name : cube.corners) {
    const Corner corner = parse_corner(name);
    draw_pes(svg, at(corner.column, corner.row), first, cube.pe_per_corner, topology.pe_count());
    first += cube.pe_per_corner;
  }
  draw_box(svg, noc, {"NoC"});
  draw_box(svg, at(1, 0), {"M_CPU", fmt::format("{} per PE", to_text(cube.m_cpu_dispatch))});
  draw_box(svg, at(0, 1),
           {"UCIe", to_text(topology.sip.ucie.bandwidth), to_text(topology.sip.ucie.latency)});
  draw_box(svg, at(2, 1),
           {"SRAM", capacity_text(cube.sram.capacity), to_text(cube.sram.bandwidth),
            to_text(cube.sram.latency)});
  draw_box(svg, at(1, 2),
           {"HBM", capacity_text(cube.hbm.capacity),
            fmt::format("{} × {}", cube.hbm.channels, to_text(cube.hbm.bandwidth)),
            share_of_peak(cube.hbm) + to_text(cube.hbm.latency)});
  panel.draw_key(svg, 0, kNocLink, "a PE's port, each way: " + to_text(cube.noc));
  if (has_ways_of_corners) {
    panel.draw_key(svg, 1, kNocLink, "a corner's, for its PEs: " + to_text(cube.corner));
  }
}

void draw_pe(SvgWriter& svg, const Panel& panel, const Topology& topology) {
  const Topology::Pe& pe = topology.pe;
  const Box area = panel.inside(0);
  const auto at = [&](int column, int row) { return place(area, column, row, 130, 14); };
  const Box tcm{at(1, 2).x, at(1, 2).y, at(2, 2).right() - at(1, 2).x, at(1, 2).h};
  const Stroke link{.colour = kFaintInk, .width = 2.5};
  for (const Box& user : {at(0, 0), at(2, 0), at(0, 1), at(1, 1), at(2, 1)}) {
    join(svg, at(1, 0), user, link);
  }
  for (const int column : {0, 1, 2}) join(svg, at(column, 1), at(std::max(column, 1), 2), link);
  join(svg, at(0, 1), at(0, 2), link);
  draw_box(svg, at(0, 0), {"PE_CPU", to_text(pe.cpu_issue), "per command"});
  draw_box(svg, at(1, 0), {"PE_SCHEDULER", to_text(pe.scheduler_dispatch), "to the unit"});
  draw_box(svg, at(2, 0), {"PE_IPCQ", to_text(pe.ipcq_latency), "per push or pop"});
  draw_box(svg, at(0, 1), {"PE_DMA", to_text(pe.dma_setup), "per descriptor"});
  draw_box(svg, at(1, 1), gemm_lines(pe.gemm));
  draw_box(svg, at(2, 1),
           {"PE_MATH", fmt::format("{} lanes", pe.math_lanes), to_text(pe.math_clock)});
  draw_box(svg, tcm,
           {"PE_TCM", capacity_text(pe.tcm.capacity),
            fmt::format("{} per port", to_text(pe.tcm.bandwidth)), to_text(pe.tcm.latency)});
  draw_box(
      svg, at(0, 2),
      {"PE_MMU", fmt::format("{} pages", capacity_text(pe.mmu_page)), to_text(pe.mmu_latency)});
}

}  // namespace kernbench::benches::figure
