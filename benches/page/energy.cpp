#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "benches/page/charts.h"
#include "benches/page/drawing.h"

namespace kernbench::benches::page {

namespace {

constexpr double kNameWidth = 80;
constexpr double kBarWidth = 620;
constexpr double kEnergyRow = 20;

double share_of(const runtime::UnitEnergy& one, Wide all) {
  return all == 0 ? 0 : static_cast<double>(one.femtojoules) / static_cast<double>(all);
}

}  // namespace

std::string energy(const runtime::EnergyUse& use) {
  if (!use.is_counted()) return "";
  const Wide all = use.femtojoules();
  const auto rows = std::ranges::count_if(
      use.units, [](const runtime::UnitEnergy& one) { return one.amount > 0; });
  Drawing drawing(1000, kEnergyRow * static_cast<double>(rows), "The energy of each kind of unit");
  double y = 0;
  for (const EnergyUnit unit : kEnergyUnits) {
    const runtime::UnitEnergy& one = use.of(unit);
    if (one.amount == 0) continue;
    const double share = share_of(one, all);
    const std::string text =
        fmt::format("{:.3f} uJ, {:.1f} %, {} {}", runtime::to_microjoules(one.femtojoules),
                    100 * share, one.amount, counts_operations(unit) ? "FLOP" : "B");
    drawing.text({0, y + 14}, name_of(unit));
    drawing.box({kNameWidth, y + 3, kBarWidth * share, 14}, "both", text);
    drawing.text({kNameWidth + kBarWidth * share + 8, y + 14}, text);
    y += kEnergyRow;
  }
  const auto watts = use.watts();
  return fmt::format("<p>{:.3f} uJ in {:.3f} us{}.</p>\n", runtime::to_microjoules(all),
                     to_ns(use.time) / 1e3,
                     watts ? fmt::format(", {:.3f} W on average", *watts) : "") +
         std::move(drawing).finish();
}

}  // namespace kernbench::benches::page
