#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <string_view>
#include <vector>

#include "benches/figure/svg.h"
#include "benches/page/charts.h"
#include "benches/page/drawing.h"
#include "benches/page/time_axis.h"

namespace kernbench::benches::page {

namespace {

using runtime::RunLog;
using runtime::RunTensor;

constexpr int kMostDevices = 16;
constexpr std::size_t kMostColumns = 220;  // of a chart
constexpr std::size_t kMostOwners = 8;     // with a colour of their own
constexpr std::size_t kMostOwnerRows = 20;
constexpr std::array<std::string_view, kMostOwners> kOwnerColours = {"c4", "c7", "c9", "c10",
                                                                     "c5", "c0", "c2", "c11"};
constexpr std::string_view kOthersColour = "c1";
constexpr double kBytesWidth = 110;
constexpr double kHeldWidth = 880;
constexpr double kHeldHeight = 180;

bool has_part(std::string_view name, std::string_view part) {
  return name.find(part) != name.npos;
}

// Finds the owner of a tensor by its name: the optimizer's states, gradients, modules by the first
// two parts of their names, and all others by the name itself, which for results is that of the
// operation.
std::string find_owner(const std::string& name) {
  for (const std::string_view state : {".exp_avg", ".max_exp_avg_sq", ".momentum_buffer"}) {
    if (has_part(name, state)) return "optimizer state";
  }
  if (name == "grad" || name.ends_with(".grad")) return "gradients";
  if (name == "bucket") return "gradients' buckets";
  const std::size_t first = name.find('.');
  if (first == name.npos) return name;
  const std::size_t second = name.find('.', first + 1);
  return "module " + name.substr(0, second == name.npos ? first : second);
}

using Held = std::map<std::string, Bytes>;  // by owner

Bytes sum_held(const Held& held) {
  Bytes total = 0;
  for (const auto& [owner, bytes] : held) total += bytes;
  return total;
}

struct Moment {
  Time at{0};
  Held held = {};
  Bytes total = 0;
};

// Returns what a device holds, from each moment at which that changes; if there are many, those at
// which it holds most.
std::vector<Moment> collect_moments(const RunLog& log, int device, Time end) {
  std::map<Time, Held> changes;
  for (const RunTensor& tensor : log.tensors()) {
    if (tensor.device != device || tensor.made > end) continue;
    const std::string owner = find_owner(tensor.name);
    changes[tensor.made][owner] += tensor.bytes;
    if (tensor.freed <= end) changes[tensor.freed][owner] -= tensor.bytes;
  }
  std::vector<Moment> moments;
  Moment now;
  const std::size_t stride = changes.size() / kMostColumns + 1;
  std::size_t i = 0;
  for (const auto& [at, change] : changes) {
    for (const auto& [owner, bytes] : change) now.held[owner] += bytes;
    now.total = sum_held(now.held);
    now.at = at;
    if (i++ % stride == 0) {
      moments.push_back(now);
    } else if (now.total > moments.back().total) {
      moments.back() = now;
    }
  }
  return moments;
}

const Moment& find_peak(const std::vector<Moment>& moments) {
  return *std::ranges::max_element(moments, {}, &Moment::total);
}

std::vector<std::pair<std::string, Bytes>> owners_at(const Moment& moment) {
  std::vector<std::pair<std::string, Bytes>> owners;
  for (const auto& [owner, bytes] : moment.held) {
    if (bytes > 0) owners.emplace_back(owner, bytes);
  }
  std::ranges::stable_sort(owners, std::ranges::greater{}, &std::pair<std::string, Bytes>::second);
  return owners;
}

std::string write_key(const std::vector<std::pair<std::string, Bytes>>& owners) {
  std::string text = "<p class=key>";
  for (std::size_t i = 0; i < std::min(kMostOwners, owners.size()); ++i) {
    text += fmt::format("<span><i class={}></i>{}</span>", kOwnerColours.at(i),
                        figure::escaped(owners[i].first));
  }
  return text + fmt::format("<span><i class={}></i>others</span></p>\n", kOthersColour);
}

// Steps over time: a point before and behind each change.
std::vector<Position> make_steps(const std::vector<Moment>& moments,
                                 const std::vector<Bytes>& bytes, Time end, Bytes most) {
  std::vector<Position> line;
  const auto x_of = [&](Time at) {
    return kBytesWidth +
           kHeldWidth * static_cast<double>(at.count()) / static_cast<double>(end.count());
  };
  for (std::size_t i = 0; i < moments.size(); ++i) {
    const double y =
        20 + kHeldHeight * (1 - static_cast<double>(bytes[i]) / static_cast<double>(most));
    line.push_back({x_of(moments[i].at), y});
    line.push_back({x_of(i + 1 < moments.size() ? moments[i + 1].at : end), y});
  }
  return line;
}

std::string make_chart(const std::vector<Moment>& moments, Time end) {
  const Moment& peak = find_peak(moments);
  const auto owners = owners_at(peak);
  Drawing drawing(kBytesWidth + kHeldWidth + 10, kHeldHeight + 40, "HBM held over time, by owner");
  drawing.text({kBytesWidth - 8, 26}, fmt::format("{} B", peak.total), "t e");
  drawing.text({kBytesWidth - 8, 20 + kHeldHeight}, "0 B", "t e");
  TimeAxis(end, kBytesWidth, kHeldWidth).draw_ticks(drawing, kHeldHeight + 38);
  std::vector<Bytes> below(moments.size(), 0);
  const auto add = [&](const auto& bytes_at, std::string_view colour, std::string_view tip) {
    const std::vector<Position> bottom = make_steps(moments, below, end, peak.total);
    for (std::size_t i = 0; i < moments.size(); ++i) below[i] += bytes_at(moments[i], below[i]);
    drawing.area(make_steps(moments, below, end, peak.total), bottom, colour, tip);
  };
  for (std::size_t i = 0; i < std::min(kMostOwners, owners.size()); ++i) {
    const std::string& owner = owners[i].first;
    const auto bytes_at = [&](const Moment& moment, Bytes) {
      const auto held = moment.held.find(owner);
      return held == moment.held.end() ? 0 : held->second;
    };
    add(bytes_at, kOwnerColours.at(i),
        fmt::format("{}: {} B at the peak", owner, owners[i].second));
  }
  add([](const Moment& moment, Bytes known) { return moment.total - known; }, kOthersColour,
      "others");
  return write_key(owners) + std::move(drawing).finish();
}

std::string owner_table(const Moment& peak, Time at) {
  std::string rows = fmt::format(
      "<table><tr><th>owner, at the peak from {:.3f} us on<th class=n>bytes<th "
      "class=n>share</tr>\n",
      to_ns(at) / 1e3);
  const auto owners = owners_at(peak);
  for (std::size_t i = 0; i < std::min(kMostOwnerRows, owners.size()); ++i) {
    rows +=
        fmt::format("<tr><td>{}<td class=n>{}<td class=n>{:.1f} %</tr>\n",
                    figure::escaped(owners[i].first), owners[i].second,
                    100 * static_cast<double>(owners[i].second) / static_cast<double>(peak.total));
  }
  return rows + "</table>\n";
}

std::string device_table(const std::map<int, std::vector<Moment>>& devices) {
  std::string rows = "<table><tr><th>device<th class=n>bytes at its peak</tr>\n";
  for (const auto& [device, moments] : devices) {
    rows += fmt::format("<tr><td>{}<td class=n>{}</tr>\n", device, find_peak(moments).total);
  }
  return rows + "</table>\n";
}

}  // namespace

std::string memory(const RunLog& log, Time end) {
  std::map<int, std::vector<Moment>> devices;
  int count = 0;
  for (const RunTensor& tensor : log.tensors()) {
    count = std::max(count, tensor.device + 1);
    if (tensor.device < kMostDevices) devices[tensor.device];
  }
  for (auto& [device, moments] : devices) moments = collect_moments(log, device, end);
  std::erase_if(devices, [](const auto& entry) { return entry.second.empty(); });
  if (devices.empty() || end == Time{0}) return "";
  const auto most = std::ranges::max_element(
      devices, {}, [](const auto& entry) { return find_peak(entry.second).total; });
  const Moment& peak = find_peak(most->second);
  if (peak.total == 0) return "";
  const std::string among =
      count > kMostDevices ? fmt::format(" of the first {} of {}", kMostDevices, count) : "";
  return fmt::format("<p>Device {}, which holds most{}:</p>\n", most->first, among) +
         make_chart(most->second, end) + beside(owner_table(peak, peak.at), device_table(devices));
}

}  // namespace kernbench::benches::page
