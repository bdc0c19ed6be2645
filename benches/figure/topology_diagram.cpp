#include "benches/figure/topology_diagram.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "benches/bench/inputs.h"
#include "benches/figure/grid_drawing.h"
#include "benches/figure/panel.h"
#include "benches/figure/style.h"
#include "benches/figure/text.h"

namespace kernbench::benches::figure {

namespace {

std::string plural(int count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

// "64 GB/s, 300 ns"; "4 x 64 GB/s, 300 ns"
std::string text_of_sip_link(const Topology::System& system) {
  const std::string one = to_text(system.sip_link);
  return system.links_per_pair == 1 ? one : fmt::format("{} × {}", system.links_per_pair, one);
}

// A text for each level, the outermost first.
std::vector<std::string> texts_of_nodes(const Topology::System& system) {
  const auto text_of = [](const NodeLevel& level) {
    const int sips = level.sips_per_link;
    return fmt::format("of {}: {}", sips == 1 ? "each SIP" : plural(sips, "SIP"),
                       to_text(level.link));
  };
  std::vector<std::string> texts = {"between nodes, " + text_of(system.nodes)};
  for (const NodeLevel& level : system.nodes.inner) {
    texts.push_back(fmt::format("{} in each node, {}", level.count, text_of(level)));
  }
  return texts;
}

std::string_view describe_joint(SipTopology topology) {
  if (topology == SipTopology::switched) return "at a switch";
  return topology == SipTopology::full_mesh ? "each to each" : name_of(topology);
}

// The name of the links between SIPs in the key of the drawing.
std::string name_of_sip_links(const Topology::System& system) {
  if (system.node_count() == 1) return "SIP link, each way: ";
  return fmt::format("in a node of {}, {}: ", system.sip_count / system.node_count(),
                     describe_joint(system.topology));
}

// "z: 12.5 GB/s, 2 µs; sip0-sip1: 25 GB/s, 1 µs and 3 more"
std::string text_of_unlike_links(const Topology::System& system) {
  constexpr std::size_t kMost = 2;
  const std::vector<UnlikeLinks>& all = system.unlike_links;
  std::string text;
  for (std::size_t i = 0; i < std::min(kMost, all.size()); ++i) {
    text += fmt::format("{}{}: {}", i == 0 ? "" : "; ", to_string(all[i]), to_text(all[i].link));
  }
  return all.size() <= kMost ? text : fmt::format("{} and {} more", text, all.size() - kMost);
}

// Says what the drawing of the SIPs does not show.
std::string text_of_network(const Topology::System& system) {
  if (system.topology == SipTopology::torus_3d) {
    return fmt::format("{} such planes, joined up and down", system.d);
  }
  if (system.topology == SipTopology::full_mesh) return "each SIP to each";
  if (system.topology != SipTopology::switched) return {};
  const SwitchSpec& network_switch = system.network_switch;
  std::string text = "switch: " + to_text(network_switch.core);
  if (network_switch.sums) text += ", sums " + to_text(*network_switch.sums);
  return text;
}

void draw_system(SvgWriter& svg, const Panel& panel, const Topology& topology) {
  const Topology::System& system = topology.system;
  const GridStyle style{"SIP", kSipFill, kSipColour, kSipLink};
  std::vector<std::string> notes = {text_of_unlike_links(system)};
  if (system.node_count() > 1) {
    for (const std::string& text : texts_of_nodes(system)) notes.push_back(text);
  } else {
    notes.push_back(text_of_network(system));
  }
  std::erase(notes, "");
  const auto link_row = static_cast<int>(notes.size());
  const Box area = panel.inside(1 + link_row);
  const Box round{area.x + 20, area.y, area.w - 40, area.h};
  if (system.node_count() > 1) {
    const GridStyle nodes{"node", kSipFill, kSipColour, kSipLink};
    if (system.nodes.count < 3 || system.nodes.count > kMostInRing) {
      GridDrawing(system.nodes.count, 1, false, area).draw(svg, nodes);
    } else {
      draw_star(svg, system.nodes.count, round, nodes, "network");
    }
  } else if (has_rows(system.topology) || system.sip_count < 3 || system.sip_count > kMostInRing) {
    const bool wraps = system.topology != SipTopology::mesh_2d_no_wrap;
    GridDrawing(system.w, system.h, wraps, area).draw(svg, style);
  } else if (system.topology == SipTopology::switched) {
    draw_star(svg, system.sip_count, round, style, "switch");
  } else if (system.topology == SipTopology::full_mesh) {
    draw_full_mesh(svg, system.sip_count, round, style);
  } else {
    draw_ring(svg, system.sip_count, round, style);
  }
  panel.draw_key(svg, link_row, kSipLink, name_of_sip_links(system) + text_of_sip_link(system));
  for (int i = 0; i < link_row; ++i) {
    panel.draw_key(svg, i, {.colour = "none"}, notes[static_cast<std::size_t>(i)]);
  }
}

// The areas of the IO chiplet and of the cubes.
struct SipParts {
  Box io;
  Box cubes;
};

SipParts split_area(const Box& area, Edge edge) {
  constexpr double kStub = 30;
  constexpr double kIo = 44;
  constexpr double kGap = 26;
  constexpr double kUsed = kStub + kIo + kGap;
  switch (edge) {
    case Edge::west:
      return {{area.x + kStub, area.y, kIo, area.h},
              {area.x + kUsed, area.y, area.w - kUsed, area.h}};
    case Edge::east:
      return {{area.right() - kStub - kIo, area.y, kIo, area.h},
              {area.x, area.y, area.w - kUsed, area.h}};
    case Edge::north:
      return {{area.x, area.y + kStub, area.w, kIo},
              {area.x, area.y + kUsed, area.w, area.h - kUsed}};
    case Edge::south:
      break;
  }
  return {{area.x, area.bottom() - kStub - kIo, area.w, kIo},
          {area.x, area.y, area.w, area.h - kUsed}};
}

std::vector<Box> edge_cubes(const GridDrawing& cubes, Edge edge) {
  if (edge == Edge::west) return cubes.column(0);
  if (edge == Edge::east) return cubes.column(cubes.last_column());
  return cubes.row(edge == Edge::north ? 0 : cubes.last_row());
}

// Draws a link from the IO chiplet to a point of a cube, or outwards, at right angles to the edge.
void draw_io_link(SvgWriter& svg, Position at, const Box& io, Edge edge, const Stroke& stroke) {
  const bool is_side = edge == Edge::west || edge == Edge::east;
  const double x = std::clamp(at.x, io.x, io.right());
  const double y = std::clamp(at.y, io.y, io.bottom());
  svg.line(at, is_side ? Position{x, at.y} : Position{at.x, y}, stroke);
}

Position towards(const Box& box, Edge edge) {
  const Position centre = box.centre();
  switch (edge) {
    case Edge::west:
      return {box.x, centre.y};
    case Edge::east:
      return {box.right(), centre.y};
    case Edge::north:
      return {centre.x, box.y};
    case Edge::south:
      break;
  }
  return {centre.x, box.bottom()};
}

// Draws the links that leave the SIP, up to the frame of its panel.
void draw_doors(SvgWriter& svg, const Panel& panel, const Box& io, const Topology& topology) {
  const Edge edge = topology.sip.io_edge;
  const bool is_side = edge == Edge::west || edge == Edge::east;
  const Position outside = towards(panel.frame(), edge);
  for (const bool is_host : {false, true}) {
    if (!is_host && topology.system.sip_count == 1) continue;
    const double part = is_host ? 0.67 : 0.33;
    const Position at =
        is_side ? Position{outside.x, io.y + part * io.h} : Position{io.x + part * io.w, outside.y};
    draw_io_link(svg, at, io, edge, is_host ? kHostLink : kSipLink);
  }
}

void draw_sip(SvgWriter& svg, const Panel& panel, const Topology& topology) {
  const Edge edge = topology.sip.io_edge;
  const auto [io, area] = split_area(panel.inside(3), edge);
  const GridDrawing cubes(topology.sip.cubes_w, topology.sip.cubes_h, false, area);
  for (const Box& cube : edge_cubes(cubes, edge)) {
    draw_io_link(svg, towards(cube, edge), io, edge, kUcieLink);
  }
  cubes.draw(svg, {"cube", kCubeFill, kCubeColour, kUcieLink});
  draw_doors(svg, panel, io, topology);
  svg.rectangle(io, kUnitFill, {.colour = kFaintInk}, 3);
  const bool is_side = edge == Edge::west || edge == Edge::east;
  const double down = baseline(0, kSmallSize);
  svg.text({io.centre().x + (is_side ? down : 0), io.centre().y + (is_side ? 0 : down)},
           "IO chiplet with IO_CPU",
           {.size = kSmallSize, .anchor = Anchor::middle, .turn = is_side ? -90.0 : 0.0});
  panel.draw_key(svg, 0, kUcieLink, "UCIe, each way: " + to_text(topology.sip.ucie));
  panel.draw_key(svg, 1, kSipLink, "to other SIPs: " + text_of_sip_link(topology.system));
  panel.draw_key(svg, 2, kHostLink, "to the host: " + to_text(topology.system.host_link));
}

}  // namespace

std::string topology_diagram(const Topology& topology) {
  const std::array<Panel, 4> panels = Panel::two_by_two();
  const std::string title = "Topology " + topology.name;
  SvgWriter svg(kPageWidth, Panel::page_height(), title, describe(topology));
  svg.text({16, 32}, title,
           {.size = fitting_size(title, kTitleSize, kPageWidth - 32, true), .bold = true});
  svg.text({16, 54}, describe(topology), {.size = kTextSize, .colour = kFaintInk});
  const Topology::Sip& sip = topology.sip;
  panels[0].draw_frame(svg, kFaintInk, "(a) system: " + plural(topology.system.sip_count, "SIP"));
  draw_system(svg, panels[0], topology);
  panels[1].draw_frame(svg, kSipColour,
                       fmt::format("(b) one SIP: {} × {} cube{}", sip.cubes_w, sip.cubes_h,
                                   topology.cube_count() == 1 ? "" : "s"));
  draw_sip(svg, panels[1], topology);
  panels[2].draw_frame(svg, kCubeColour, "(c) one cube: " + plural(topology.pe_count(), "PE"));
  draw_cube(svg, panels[2], topology);
  panels[3].draw_frame(svg, kPeColour, "(d) one PE");
  draw_pe(svg, panels[3], topology);
  return std::move(svg).finish();
}

}  // namespace kernbench::benches::figure
