#include "benches/page/links_over_time.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <span>
#include <vector>

#include "benches/page/drawing.h"
#include "benches/page/time_axis.h"
#include "sim_engine/components/fabric.h"
#include "sim_engine/components/routing.h"
#include "sim_engine/components/use_over_time.h"

namespace kernbench::benches::page {

namespace {

using Heats = std::vector<Drawing::Heat>;

constexpr std::size_t kMostLinks = 24;
constexpr double kNamesWidth = 160;
constexpr double kTimesWidth = 440;
constexpr double kScaleHeight = 18;
constexpr double kLinkPitch = 13;

double compute_share(Time part, Time whole) {
  return static_cast<double>(part.count()) / static_cast<double>(whole.count());
}

struct LinkTimes {
  std::string name;
  Time total{0};
  std::span<const Time> busy;  // by stretch
};

std::vector<LinkTimes> busiest_links(const sim::Routing& routing, const sim::UseOverTime& use,
                                     sim::UnitClass unit_class) {
  std::vector<LinkTimes> links;
  for (sim::LinkId link = 0; link < routing.link_count(); ++link) {
    const std::span<const Time> busy = use.of(link);
    if (busy.empty() || routing.find_class(link) != unit_class) continue;
    links.push_back({routing.name(link), std::accumulate(busy.begin(), busy.end(), Time{0}), busy});
  }
  std::ranges::stable_sort(links, std::ranges::greater{}, &LinkTimes::total);
  links.resize(std::min(links.size(), kMostLinks));
  return links;
}

// Stretches that have the same colour become one.
void add(Heats& row, const Drawing::Heat& heat) {
  const bool goes_on = !row.empty() && row.back().to == heat.from &&
                       heat_step(row.back().share) == heat_step(heat.share);
  if (goes_on) {
    row.back().to = heat.to;
  } else {
    row.push_back(heat);
  }
}

void draw(Drawing& drawing, const LinkTimes& link, Time stretch, Time end, double y) {
  const auto x_of = [&](Time at) { return kNamesWidth + kTimesWidth * compute_share(at, end); };
  Heats row;
  double most = 0;
  Time start{0};
  for (std::size_t i = 0; i < link.busy.size() && start < end; ++i) {
    const Time until = std::min(start + stretch, end);
    const double share = compute_share(link.busy[i], until - start);
    most = std::max(most, share);
    if (share > 0) add(row, {x_of(start), x_of(until), share});
    start = until;
  }
  drawing.text({kNamesWidth - 8, y + 4}, link.name, "t e");
  drawing.line({kNamesWidth, y}, {kNamesWidth + kTimesWidth, y}, "g");
  drawing.heat_row(
      y, row,
      fmt::format("{}: busy for {:.1f} % of the run, for {:.1f} % of its busiest {}", link.name,
                  100 * compute_share(link.total, end), 100 * most, to_string(stretch)));
}

}  // namespace

std::string links_over_time(const sim::Machine& machine, sim::UnitClass unit_class) {
  const auto use = machine.fabric().use_over_time();
  const Time end = machine.engine().now();
  if (use == nullptr || end == Time{0}) return "";
  const std::vector<LinkTimes> links = busiest_links(machine.fabric().routing(), *use, unit_class);
  if (links.empty()) return "";
  Drawing drawing(kNamesWidth + kTimesWidth + 10,
                  kScaleHeight + kLinkPitch * static_cast<double>(links.size()) + 4,
                  "When links were busy");
  TimeAxis(end, kNamesWidth, kTimesWidth).draw_ticks(drawing, 14);
  double y = kScaleHeight + kLinkPitch / 2;
  for (const LinkTimes& link : links) {
    draw(drawing, link, use->stretch(), end, y);
    y += kLinkPitch;
  }
  return std::move(drawing).finish();
}

}  // namespace kernbench::benches::page
