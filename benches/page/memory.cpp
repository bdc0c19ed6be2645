#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <vector>

#include "benches/figure/svg.h"
#include "benches/page/charts.h"
#include "benches/page/drawing.h"

namespace kernbench::benches::page {

namespace {

constexpr int kMostDevices = 16;
constexpr std::size_t kMostSteps = 300;  // of a device's line
constexpr std::size_t kMostOwners = 8;

struct Step {
  Time at{0};
  Bytes bytes = 0;  // from then on
};

struct Use {
  std::vector<Step> steps;
  Step peak;
};

std::map<int, Use> uses_of(const runtime::RunLog& log) {
  std::map<int, std::map<Time, Bytes>> changes;
  for (const runtime::RunTensor& tensor : log.tensors()) {
    if (tensor.device >= kMostDevices) continue;
    changes[tensor.device][tensor.made] += tensor.bytes;
    changes[tensor.device][tensor.freed] -= tensor.bytes;
  }
  std::map<int, Use> uses;
  for (const auto& [device, by_time] : changes) {
    Use& use = uses[device];
    Bytes bytes = 0;
    for (const auto& [at, change] : by_time) {
      if (at == Time::max()) break;
      use.steps.push_back({at, bytes += change});
      if (bytes > use.peak.bytes) use.peak = use.steps.back();
    }
  }
  return uses;
}

// Of many steps, in each stretch of time the highest.
std::vector<Step> fewer(const std::vector<Step>& steps) {
  if (steps.size() <= kMostSteps) return steps;
  const std::size_t stride = steps.size() / kMostSteps + 1;
  std::vector<Step> result;
  for (std::size_t i = 0; i < steps.size(); i += stride) {
    const auto end =
        steps.begin() + static_cast<std::ptrdiff_t>(std::min(i + stride, steps.size()));
    result.push_back(
        *std::max_element(steps.begin() + static_cast<std::ptrdiff_t>(i), end,
                          [](const Step& a, const Step& b) { return a.bytes < b.bytes; }));
  }
  return result;
}

void draw_use(Drawing& drawing, const Use& use, Bytes most, Time end, const Box& area,
              std::string_view tip) {
  const auto x_of = [&](Time at) {
    return area.x + area.w * static_cast<double>(at.count()) / static_cast<double>(end.count());
  };
  const auto y_of = [&](Bytes bytes) {
    return area.bottom() - area.h * static_cast<double>(bytes) / static_cast<double>(most);
  };
  const std::vector<Step> steps = fewer(use.steps);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const Time until = i + 1 < steps.size() ? steps[i + 1].at : end;
    const double y = y_of(steps[i].bytes);
    drawing.box({x_of(steps[i].at), y, x_of(until) - x_of(steps[i].at), area.bottom() - y}, "hbm",
                tip);
  }
}

// The tensors that lie on the device at its peak, by name.
std::string owners_at(const runtime::RunLog& log, int device, const Step& peak) {
  std::map<std::string, Bytes> by_name;
  for (const runtime::RunTensor& tensor : log.tensors()) {
    if (tensor.device != device || tensor.made > peak.at || tensor.freed <= peak.at) continue;
    by_name[tensor.name] += tensor.bytes;
  }
  std::vector<std::pair<std::string, Bytes>> owners(by_name.begin(), by_name.end());
  std::ranges::stable_sort(owners, std::ranges::greater{}, &std::pair<std::string, Bytes>::second);
  std::string rows =
      fmt::format("<table><tr><th>tensor on device {} at its peak<th class=n>bytes</tr>\n", device);
  for (std::size_t i = 0; i < std::min(kMostOwners, owners.size()); ++i) {
    rows += fmt::format("<tr><td>{}<td class=n>{}</tr>\n", figure::escaped(owners[i].first),
                        owners[i].second);
  }
  return rows + "</table>\n";
}

}  // namespace

std::string memory(const runtime::RunLog& log, Time end) {
  const std::map<int, Use> uses = uses_of(log);
  if (uses.empty()) return "";
  const auto most =
      std::ranges::max_element(uses, {}, [](const auto& entry) { return entry.second.peak.bytes; });
  const Step peak = most->second.peak;
  if (peak.bytes == 0) return "";
  constexpr double kRow = 44;
  Drawing drawing(1000, kRow * static_cast<double>(uses.size()), "HBM held by tensors over time");
  double y = 0;
  for (const auto& [device, use] : uses) {
    const std::string tip = fmt::format("device {}: at most {} B", device, use.peak.bytes);
    drawing.text({0, y + 26}, tip);
    draw_use(drawing, use, peak.bytes, end, {230, y + 4, 770, kRow - 8}, tip);
    y += kRow;
  }
  return std::move(drawing).finish() + owners_at(log, most->first, peak);
}

}  // namespace kernbench::benches::page
