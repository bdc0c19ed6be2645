#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <ranges>
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
constexpr std::size_t kMostOwnerRows = 20;
constexpr double kBytesWidth = 110;
constexpr double kHeldWidth = 880;
constexpr double kHeldHeight = 180;

struct KindColour {
  MemoryKind kind = MemoryKind::temporary;
  std::string_view colour;
};
// From the bottom of the chart to its top: what stays is below what comes and goes.
constexpr std::array kColours = {
    KindColour{MemoryKind::parameter, "c4"},     KindColour{MemoryKind::optimizer_state, "c7"},
    KindColour{MemoryKind::input, "c10"},        KindColour{MemoryKind::gradient, "c9"},
    KindColour{MemoryKind::communication, "c5"}, KindColour{MemoryKind::activation, "c0"},
    KindColour{MemoryKind::autograd_detail, "c2"}, KindColour{MemoryKind::temporary, "c1"}};
static_assert(kColours.size() == kAllMemoryKinds.size());

// "optimizer state"
std::string words_of(MemoryKind kind) {
  std::string words(name_of(kind));
  std::ranges::replace(words, '_', ' ');
  return words;
}

struct Moment {
  Time at{0};
  std::uint64_t event = 0;  // that it is behind
  MemoryByKind held = {};
  Bytes total = 0;
};

// Returns what a device holds behind each allocation and free; if there are many, behind those with
// which it holds most.
std::vector<Moment> collect_moments(const RunLog& log, int device, Time end) {
  std::map<std::uint64_t, Moment> changes;  // by event: what it adds
  for (const RunTensor& tensor : log.tensors()) {
    if (tensor.device != device || tensor.made > end) continue;
    Moment& made = changes[tensor.made_by];
    made.at = tensor.made;
    made.held[tensor.kind] += tensor.bytes;
    if (tensor.freed > end) continue;
    Moment& freed = changes[tensor.freed_by];
    freed.at = tensor.freed;
    freed.held[tensor.kind] -= tensor.bytes;
  }
  std::vector<Moment> moments;
  Moment now;
  const std::size_t stride = changes.size() / kMostColumns + 1;
  std::size_t i = 0;
  for (const auto& [event, change] : changes) {
    for (const MemoryKind kind : kAllMemoryKinds) now.held[kind] += change.held[kind];
    now.total = now.held.sum();
    now.at = std::max(now.at, change.at);
    now.event = event;
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

using Owner = std::pair<std::string, Bytes>;

// Returns the bytes that a device holds behind an event, by kind and module, the largest first.
std::vector<Owner> owners_at(const RunLog& log, int device, std::uint64_t event) {
  std::map<std::string, Bytes> by_owner;
  for (const RunTensor& tensor : log.tensors()) {
    const bool is_held = tensor.made_by <= event && tensor.freed_by > event;
    if (tensor.device != device || !is_held) continue;
    std::string owner = words_of(tensor.kind);
    if (!tensor.module.empty()) owner += " of " + tensor.module;
    by_owner[owner] += tensor.bytes;
  }
  std::vector<Owner> owners(by_owner.begin(), by_owner.end());
  std::ranges::stable_sort(owners, std::ranges::greater{}, &Owner::second);
  return owners;
}

std::string write_key(const MemoryByKind& at_peak) {
  std::string text = "<p class=key>";
  for (const auto& [kind, colour] : kColours) {
    if (at_peak[kind] == 0) continue;
    text += fmt::format("<span><i class={}></i>{}</span>", colour, words_of(kind));
  }
  return text + "</p>\n";
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
  Drawing drawing(kBytesWidth + kHeldWidth + 10, kHeldHeight + 40, "HBM held over time, by kind");
  drawing.text({kBytesWidth - 8, 26}, fmt::format("{} B", peak.total), "t e");
  drawing.text({kBytesWidth - 8, 20 + kHeldHeight}, "0 B", "t e");
  TimeAxis(end, kBytesWidth, kHeldWidth).draw_ticks(drawing, kHeldHeight + 38);
  std::vector<Bytes> below(moments.size(), 0);
  for (const auto& [kind, colour] : kColours) {
    const bool is_held = std::ranges::any_of(
        moments, [kind = kind](const Moment& moment) { return moment.held[kind] != 0; });
    if (!is_held) continue;
    const std::vector<Position> bottom = make_steps(moments, below, end, peak.total);
    for (std::size_t i = 0; i < moments.size(); ++i) below[i] += moments[i].held[kind];
    drawing.area(make_steps(moments, below, end, peak.total), bottom, colour,
                 fmt::format("{}: {} B at the peak", words_of(kind), peak.held[kind]));
  }
  return write_key(peak.held) + std::move(drawing).finish();
}

std::string owner_table(const std::vector<Owner>& owners, const Moment& peak) {
  std::string rows = fmt::format(
      "<table><tr><th>at the peak from {:.3f} us on<th class=n>bytes<th class=n>share</tr>\n",
      to_ns(peak.at) / 1e3);
  for (const auto& [owner, bytes] : owners | std::views::take(kMostOwnerRows)) {
    rows += fmt::format("<tr><td>{}<td class=n>{}<td class=n>{:.1f} %</tr>\n",
                        figure::escaped(owner), bytes,
                        100 * static_cast<double>(bytes) / static_cast<double>(peak.total));
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
         make_chart(most->second, end) +
         beside(owner_table(owners_at(log, most->first, peak.event), peak), device_table(devices));
}

}  // namespace kernbench::benches::page
