#include "benches/page/link_drawing.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>
#include <vector>

#include "benches/page/drawing.h"
#include "sim_engine/topology/sip_network.h"

namespace kernbench::benches::page {

namespace {

using sim::Compass;

constexpr double kSide = 56;    // of a box
constexpr double kPitch = 130;  // of boxes
constexpr double kMargin = 76;  // for links that wrap around
constexpr double kLane = 7;     // of a direction from the middle, as on a road
constexpr int kMostBoxes = 64;
constexpr int kMostInFullMesh = 16;

std::string write_tip(const LinkUse& link) {
  return fmt::format("{}: {:.1f} %, {} B", link.name, 100 * link.share, link.carried);
}

void draw_box(Drawing& drawing, Position corner, const std::string& name,
              std::string_view tip = {}) {
  drawing.box({corner.x, corner.y, kSide, kSide}, "b", tip);
  drawing.text({corner.x + kSide / 2, corner.y + kSide / 2 + 4}, name, "t m");
}

// Boxes on a grid, and for each of a box's directions its link.  Layers stand beside each other.
class GridOfLinks {
 public:
  GridOfLinks(const sim::Grid& grid, std::string_view name)
      : grid_(grid),
        drawing_(2 * kMargin + kPitch * (grid.d * (grid.w + 1) - 2) + kSide,
                 2 * kMargin + kPitch * (grid.h - 1) + kSide, name) {}

  Position corner(int index) const {
    const int column = grid_.x_of(index) + grid_.z_of(index) * (grid_.w + 1);
    return {kMargin + kPitch * column, kMargin + kPitch * grid_.y_of(index)};
  }
  void draw_link(int index, Compass direction, const LinkUse& link);
  std::string finish(std::string_view noun) &&;

 private:
  const sim::Grid grid_;
  Drawing drawing_;
};

// A link that wraps around, or leads to another layer, ends in a stub.
void GridOfLinks::draw_link(int index, Compass direction, const LinkUse& link) {
  const Position at = corner(index);
  const double middle = kSide / 2;
  const double length = kPitch - kSide;
  const auto line = [&](Position from, double right, double down) {
    drawing_.heat_line(from, {from.x + right, from.y + down}, link.share, write_tip(link));
  };
  switch (direction) {
    case Compass::east:
      return line({at.x + kSide, at.y + middle + kLane}, length, 0);
    case Compass::west:
      return line({at.x, at.y + middle - kLane}, -length, 0);
    case Compass::south:
      return line({at.x + middle - kLane, at.y + kSide}, 0, length);
    case Compass::north:
      return line({at.x + middle + kLane, at.y}, 0, -length);
    case Compass::up:
      return line({at.x + kSide, at.y}, length / 2, -length / 2);
    case Compass::down:
      return line({at.x, at.y + kSide}, -length / 2, length / 2);
  }
}

std::string GridOfLinks::finish(std::string_view noun) && {
  for (int index = 0; index < grid_.count(); ++index) {
    draw_box(drawing_, corner(index), fmt::format("{} {}", noun, index));
  }
  return std::move(drawing_).finish();
}

// In a dimension of two both directions lead to the same place, and messages go one of them.
bool has_link(const sim::Grid& grid, int index, Compass direction) {
  const int neighbour = grid.neighbour(index, direction);
  return neighbour >= 0 && grid.first_step(index, neighbour) == direction;
}

std::string draw_grid(const sim::Grid& grid, std::string_view noun, const FindUse& find,
                      const auto& name_of_link) {
  GridOfLinks drawing(grid, fmt::format("Links of each {}", noun));
  for (int index = 0; index < grid.count(); ++index) {
    for (int i = 0; i < sim::kCompassCount; ++i) {
      const auto direction = static_cast<Compass>(i);
      if (!has_link(grid, index, direction)) continue;
      drawing.draw_link(index, direction, find(name_of_link(index, direction)));
    }
  }
  return std::move(drawing).finish(noun);
}

// SIPs around a circle, joined to each other or to what is in the middle.
class CircleOfLinks {
 public:
  explicit CircleOfLinks(int count)
      : count_(count),
        radius_(std::max(1.5 * kPitch, count * 1.5 * kSide / (2 * std::numbers::pi))),
        drawing_(2 * radius_ + 1.6 * kSide, 2 * radius_ + 1.6 * kSide, "Links of each SIP") {}

  Position centre() const { return {radius_ + 0.8 * kSide, radius_ + 0.8 * kSide}; }
  Position place(int sip) const {
    const double angle = 2 * std::numbers::pi * sip / count_;
    return {centre().x + radius_ * std::sin(angle), centre().y - radius_ * std::cos(angle)};
  }
  // Between the centre and `size` SIPs that begin with `first`.
  Position place_within(int first, int size) const {
    constexpr double kOut = 0.5;
    const double angle = 2 * std::numbers::pi * (first + (size - 1) / 2.0) / count_;
    return {centre().x + kOut * radius_ * std::sin(angle),
            centre().y - kOut * radius_ * std::cos(angle)};
  }
  // Each direction of a pair has its own side.
  void draw_link(Position from, Position to, const LinkUse& link) {
    const double length = std::hypot(to.x - from.x, to.y - from.y);
    const Position along{(to.x - from.x) / length, (to.y - from.y) / length};
    const auto shifted = [&](Position at, double by) {
      return Position{at.x + by * along.x - kLane * along.y, at.y + by * along.y + kLane * along.x};
    };
    drawing_.heat_line(shifted(from, kSide / 2), shifted(to, -kSide / 2), link.share,
                       write_tip(link));
  }
  void draw_box_at(Position place, const std::string& name, std::string_view tip = {}) {
    draw_box(drawing_, {place.x - kSide / 2, place.y - kSide / 2}, name, tip);
  }
  std::string finish() && {
    for (int sip = 0; sip < count_; ++sip) draw_box_at(place(sip), fmt::format("SIP {}", sip));
    return std::move(drawing_).finish();
  }

 private:
  const int count_;
  const double radius_;
  Drawing drawing_;
};

std::string name_of_sip_link(const sim::SipNetwork& network, int sip, int number) {
  return fmt::format("sip{}.link.{}", sip, network.name_of_link(number));
}

// The links between the outermost nodes meet in the centre, those of inner levels on the way there.
void draw_node_links(CircleOfLinks& drawing, const sim::SipNetwork& network, int count,
                     const FindUse& find) {
  for (int level = 1; level <= network.level_count(); ++level) {
    const int around = network.sips_in_node(level + 1);
    const auto hub = [&](int sip) {
      return around == count ? drawing.centre() : drawing.place_within(sip - sip % around, around);
    };
    for (int sip = 0; sip < count; sip += network.nodes(level).sips_per_link) {
      const auto use = [&](int number) { return find(name_of_sip_link(network, sip, number)); };
      drawing.draw_link(drawing.place(sip), hub(sip), use(network.to_nodes(level)));
      drawing.draw_link(hub(sip), drawing.place(sip), use(network.from_nodes(level)));
    }
    for (int first = 0; first < count; first += around) drawing.draw_box_at(hub(first), "network");
  }
}

std::string draw_switch(const sim::SipNetwork& network, int count, const FindUse& find) {
  CircleOfLinks drawing(count);
  const int in_node = network.sips_in_node();
  const auto hub = [&](int sip) {
    return network.has_nodes() ? drawing.place_within(sip - sip % in_node, in_node)
                               : drawing.centre();
  };
  for (int sip = 0; sip < count; ++sip) {
    const auto use = [&](int number) { return find(name_of_sip_link(network, sip, number)); };
    drawing.draw_link(drawing.place(sip), hub(sip), use(sim::SipNetwork::kToSwitch));
    drawing.draw_link(hub(sip), drawing.place(sip), use(sim::SipNetwork::kFromSwitch));
  }
  draw_node_links(drawing, network, count, find);
  for (int first = 0; first < count; first += in_node) {
    const std::string core = network.has_nodes()
                                 ? fmt::format("node{}.switch.core", network.node_of(first))
                                 : "switch.core";
    drawing.draw_box_at(hub(first), "switch", write_tip(find(core)));
  }
  return std::move(drawing).finish();
}

std::string draw_full_mesh(const sim::SipNetwork& network, int count, const FindUse& find) {
  CircleOfLinks drawing(count);
  for (int sip = 0; sip < count; ++sip) {
    for (int other = 0; other < count; ++other) {
      if (other == sip || network.node_of(other) != network.node_of(sip)) continue;
      drawing.draw_link(drawing.place(sip), drawing.place(other),
                        find(name_of_sip_link(network, sip, other)));
    }
  }
  draw_node_links(drawing, network, count, find);
  return std::move(drawing).finish();
}

}  // namespace

std::optional<std::string> draw_sip_links(const Topology& topology, const FindUse& find) {
  const int count = topology.system.sip_count;
  const sim::SipNetwork network(topology);
  const bool is_full_mesh = network.joins_all() && !network.has_switch();
  if (count < 2 || count > (is_full_mesh ? kMostInFullMesh : kMostBoxes)) return std::nullopt;
  if (network.has_switch()) return draw_switch(network, count, find);
  if (is_full_mesh) return draw_full_mesh(network, count, find);
  if (network.has_nodes()) return std::nullopt;
  return draw_grid(network.grid(), "SIP", find, [&](int sip, Compass direction) {
    return name_of_sip_link(network, sip, static_cast<int>(direction));
  });
}

std::optional<std::string> draw_cube_links(const Topology& topology, int sip, const FindUse& find) {
  const sim::Grid cubes = sim::cube_grid(topology);
  if (cubes.count() < 2 || cubes.count() > kMostBoxes) return std::nullopt;
  return draw_grid(cubes, "cube", find, [&](int cube, Compass direction) {
    return fmt::format("sip{}.cube{}.ucie.{}", sip, cube, sim::name_of(direction));
  });
}

}  // namespace kernbench::benches::page
