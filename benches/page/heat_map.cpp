#include "benches/page/heat_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "benches/page/drawing.h"
#include "benches/page/links_over_time.h"
#include "sim_engine/components/fabric.h"
#include "sim_engine/topology/location.h"

namespace kernbench::benches::page {

namespace {

using sim::Compass;
using sim::LinkId;
using sim::UnitClass;

constexpr double kSide = 56;    // of a box
constexpr double kPitch = 130;  // of boxes
constexpr double kMargin = 60;  // for links that wrap around
constexpr std::size_t kMostBoxes = 64;
constexpr std::size_t kMostNamed = 10;

struct LinkUse {
  std::string name = {};
  double share = 0;
  Bytes carried = 0;
};

std::string write_tip(const LinkUse& link) {
  return fmt::format("{}: {:.1f} %, {} B", link.name, 100 * link.share, link.carried);
}

class LinkUses {
 public:
  explicit LinkUses(const sim::Machine& machine);

  const std::vector<LinkUse>& of(UnitClass unit_class) const {
    return unit_class == UnitClass::link ? sips_ : cubes_;
  }
  // The link of that name; nullptr if the machine has none, or nothing ever took it.
  const LinkUse* find(UnitClass unit_class, std::string_view name) const {
    const auto& links = of(unit_class);
    const auto found = std::ranges::find(links, name, &LinkUse::name);
    return found == links.end() ? nullptr : &*found;
  }

 private:
  std::vector<LinkUse> sips_;
  std::vector<LinkUse> cubes_;
};

LinkUses::LinkUses(const sim::Machine& machine) {
  const sim::Fabric& fabric = machine.fabric();
  const auto kernels = static_cast<double>(machine.busiest_unit().kernel_time.count());
  for (LinkId link = 0; link < fabric.routing().link_count(); ++link) {
    const UnitClass unit_class = fabric.routing().find_class(link);
    if (unit_class != UnitClass::link && unit_class != UnitClass::ucie) continue;
    const auto busy = static_cast<double>(fabric.busy(link).count());
    if (busy == 0 || kernels == 0) continue;
    (unit_class == UnitClass::link ? sips_ : cubes_)
        .push_back({fabric.routing().name(link), busy / kernels, fabric.carried(link)});
  }
}

// Boxes on a grid, and for each of a box's four directions its link.
class GridOfLinks {
 public:
  GridOfLinks(const sim::Grid& grid, std::string_view name)
      : grid_(grid),
        drawing_(2 * kMargin + kPitch * (grid.w - 1) + kSide,
                 2 * kMargin + kPitch * (grid.h - 1) + kSide, name) {}

  Position corner(int index) const {
    return {kMargin + kPitch * grid_.x_of(index), kMargin + kPitch * grid_.y_of(index)};
  }
  void draw_link(int index, Compass direction, const LinkUse& link);
  std::string finish(std::string_view noun) &&;

 private:
  const sim::Grid grid_;
  Drawing drawing_;
};

// Each direction of a pair has its own side, as on a road; a link that wraps around ends in a stub.
void GridOfLinks::draw_link(int index, Compass direction, const LinkUse& link) {
  constexpr double kLane = 7;
  const Position at = corner(index);
  const double middle = kSide / 2;
  const double length = kPitch - kSide;
  const std::string tip = write_tip(link);
  switch (direction) {
    case Compass::east:
      drawing_.heat_line({at.x + kSide, at.y + middle + kLane},
                         {at.x + kSide + length, at.y + middle + kLane}, link.share, tip);
      break;
    case Compass::west:
      drawing_.heat_line({at.x, at.y + middle - kLane}, {at.x - length, at.y + middle - kLane},
                         link.share, tip);
      break;
    case Compass::south:
      drawing_.heat_line({at.x + middle - kLane, at.y + kSide},
                         {at.x + middle - kLane, at.y + kSide + length}, link.share, tip);
      break;
    case Compass::north:
      drawing_.heat_line({at.x + middle + kLane, at.y}, {at.x + middle + kLane, at.y - length},
                         link.share, tip);
      break;
    case Compass::up:  // to the next layer, which lies behind
      drawing_.heat_line({at.x + kSide, at.y}, {at.x + kSide + length / 2, at.y - length / 2},
                         link.share, tip);
      break;
    case Compass::down:
      drawing_.heat_line({at.x, at.y + kSide}, {at.x - length / 2, at.y + kSide + length / 2},
                         link.share, tip);
      break;
  }
}

std::string GridOfLinks::finish(std::string_view noun) && {
  for (int index = 0; index < grid_.count(); ++index) {
    const Position at = corner(index);
    drawing_.box({at.x, at.y, kSide, kSide}, "b");
    drawing_.text({at.x + kSide / 2, at.y + kSide / 2 + 4}, fmt::format("{} {}", noun, index),
                  "t m");
  }
  return std::move(drawing_).finish();
}

std::string grid_of_links(const sim::Grid& grid, const LinkUses& uses, UnitClass unit_class,
                          std::string_view noun, const auto& name_of_link) {
  GridOfLinks drawing(grid, fmt::format("Links of each {}", noun));
  for (int index = 0; index < grid.count(); ++index) {
    for (int i = 0; i < sim::kCompassCount; ++i) {
      const auto direction = static_cast<Compass>(i);
      if (grid.neighbour(index, direction) < 0) continue;
      const LinkUse idle{name_of_link(index, direction)};
      const LinkUse* const used = uses.find(unit_class, idle.name);
      drawing.draw_link(index, direction, used == nullptr ? idle : *used);
    }
  }
  return std::move(drawing).finish(noun);
}

// The SIP with the busiest link between its cubes; 0 if there is none.
int busiest_sip(const LinkUses& uses) {
  const auto& links = uses.of(UnitClass::ucie);
  const auto most = std::ranges::max_element(links, {}, &LinkUse::share);
  return most == links.end() ? 0 : std::stoi(most->name.substr(3));  // "sip12.cube0..."
}

std::string busiest_links(const LinkUses& uses) {
  std::vector<LinkUse> links = uses.of(UnitClass::link);
  links.insert(links.end(), uses.of(UnitClass::ucie).begin(), uses.of(UnitClass::ucie).end());
  std::ranges::stable_sort(links, std::ranges::greater{}, &LinkUse::share);
  std::string rows = "<table><tr><th>link<th class=n>busy<th class=n>bytes</tr>\n";
  for (std::size_t i = 0; i < std::min(kMostNamed, links.size()); ++i) {
    rows += fmt::format("<tr><td>{}<td class=n>{:.1f} %<td class=n>{}</tr>\n", links[i].name,
                        100 * links[i].share, links[i].carried);
  }
  return rows + "</table>\n";
}

std::string heat_scale() {
  Drawing drawing(320, 24, "The scale of colours, 0 to 100 %");
  for (int step = 0; step < 10; ++step) {
    const double x = 60 + 20.0 * step;
    drawing.heat_line({x, 12}, {x + 18, 12}, step / 10.0 + 0.01, fmt::format("{} %", 10 * step));
  }
  drawing.text({30, 16}, "0 %");
  drawing.text({270, 16}, "100 %");
  return std::move(drawing).finish();
}

}  // namespace

std::string heat_map(const sim::Machine& machine) {
  const LinkUses uses(machine);
  const Topology& topology = machine.topology();
  const sim::Grid sips = sim::sip_grid(topology);
  const sim::Grid cubes = sim::cube_grid(topology);
  std::string text = heat_scale();
  if (static_cast<std::size_t>(sips.count()) <= kMostBoxes && sips.count() > 1) {
    const std::string drawing =
        grid_of_links(sips, uses, UnitClass::link, "SIP", [](int sip, Compass direction) {
          return fmt::format("sip{}.link.{}", sip, sim::name_of(direction));
        });
    text += beside(drawing, links_over_time(machine, UnitClass::link));
  } else {
    text += links_over_time(machine, UnitClass::link);
  }
  if (static_cast<std::size_t>(cubes.count()) <= kMostBoxes && cubes.count() > 1) {
    const int shown = busiest_sip(uses);
    text += fmt::format("<p>The cubes of SIP {}:</p>\n", shown);
    const std::string drawing =
        grid_of_links(cubes, uses, UnitClass::ucie, "cube", [&](int cube, Compass direction) {
          return fmt::format("sip{}.cube{}.ucie.{}", shown, cube, sim::name_of(direction));
        });
    text += beside(drawing, links_over_time(machine, UnitClass::ucie));
  }
  return text + busiest_links(uses);
}

}  // namespace kernbench::benches::page
