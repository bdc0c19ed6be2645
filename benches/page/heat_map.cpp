#include "benches/page/heat_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <vector>

#include "benches/page/drawing.h"
#include "benches/page/link_drawing.h"
#include "benches/page/links_over_time.h"
#include "sim_engine/components/fabric.h"

namespace kernbench::benches::page {

namespace {

using sim::LinkId;
using sim::UnitClass;

constexpr std::size_t kMostNamed = 10;

class LinkUses {
 public:
  explicit LinkUses(const sim::Machine& machine);

  const std::vector<LinkUse>& of(UnitClass unit_class) const {
    return unit_class == UnitClass::link ? sips_ : cubes_;
  }
  // The link of that name, or all of its parallel ones: the share is that of the busiest.
  LinkUse find(UnitClass unit_class, const std::string& name) const {
    LinkUse found{name};
    const std::string parallel = name + '[';
    for (const LinkUse& link : of(unit_class)) {
      if (link.name != name && !link.name.starts_with(parallel)) continue;
      found.share = std::max(found.share, link.share);
      found.carried += link.carried;
    }
    return found;
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
  const auto section = [&](const std::optional<std::string>& drawing, UnitClass unit_class) {
    const std::string times = links_over_time(machine, unit_class);
    return drawing ? beside(*drawing, times) : times;
  };
  const auto finder = [&](UnitClass unit_class) {
    return [&uses, unit_class](const std::string& name) { return uses.find(unit_class, name); };
  };
  std::string text =
      heat_scale() +
      section(draw_sip_links(machine.topology(), finder(UnitClass::link)), UnitClass::link);
  const int shown = busiest_sip(uses);
  if (const auto cubes = draw_cube_links(machine.topology(), shown, finder(UnitClass::ucie))) {
    text += fmt::format("<p>The cubes of SIP {}:</p>\n", shown) + section(cubes, UnitClass::ucie);
  }
  return text + busiest_links(uses);
}

}  // namespace kernbench::benches::page
