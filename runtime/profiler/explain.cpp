#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <set>
#include <utility>
#include <vector>

#include "runtime/profiler/profile.h"
#include "runtime/profiler/profile_text.h"
#include "sim_engine/base/error.h"
#include "sim_engine/base/line_width.h"

namespace kernbench::runtime {

namespace {

constexpr std::size_t kMostRanks = 5;
constexpr std::size_t kMostOperations = 6;
constexpr std::size_t kMostWaits = 3;
constexpr std::size_t kMostPathRows = 5;
constexpr std::size_t kMostUnitClasses = 7;
constexpr double kLeastPercent = 0.05;  // of the causes of the path

// Chooses from many ranks those that stand out: they compute or wait for the most or the least
// time.
std::vector<RankTime> telling_ranks(const std::vector<RankTime>& ranks) {
  if (ranks.size() <= kMostRanks) return ranks;
  std::set<int> chosen = {ranks.front().rank};
  const auto choose = [&](auto time) {
    const auto [least, most] = std::ranges::minmax_element(ranks, {}, time);
    chosen.insert({least->rank, most->rank});
  };
  choose([](const RankTime& rank) { return rank.compute_only + rank.both; });
  choose(&RankTime::idle);
  std::vector<RankTime> result;
  for (const RankTime& rank : ranks) {
    if (chosen.contains(rank.rank)) result.push_back(rank);
  }
  return result;
}

std::string ranks_text(const Profile& profile) {
  std::string text = std::string(kRankHead);
  const std::vector<RankTime> shown = telling_ranks(profile.ranks);
  if (shown.size() < profile.ranks.size()) {
    text += fmt::format("   (of {} ranks)", profile.ranks.size());
  }
  text += '\n';
  for (const RankTime& rank : shown) text += rank_line(rank, profile.duration());
  return text;
}

constexpr std::size_t kNameWidth = 36;

// The algorithm, which a name tells least, stands there if it has room; of a module's operations
// the phase, likewise.
std::string name_of_row(const OperationRow& row) {
  std::string name = row.name;
  if (!row.part.empty()) name += ", " + row.part;
  if (!row.module.empty()) name += ", " + row.module;
  const bool shows_phase = row.module.empty() || name.size() + 2 + row.phase.size() <= kNameWidth;
  if (!row.phase.empty() && shows_phase) name += ", " + row.phase;
  if (row.group > 0) name += fmt::format(", group {}", row.group);
  const std::string algorithm = fmt::format(" ({})", row.algorithm);
  const bool has_room = name.size() + algorithm.size() <= kNameWidth;
  return !row.algorithm.empty() && has_room ? name + algorithm : name;
}

// "4.2 MB"
std::string bytes_text(Bytes bytes) {
  constexpr std::array<std::string_view, 5> kUnits = {"B", "kB", "MB", "GB", "TB"};
  auto number = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; number >= 1000 && unit + 1 < kUnits.size(); ++unit) number /= 1000;
  return fmt::format("{:.{}f} {}", number, unit == 0 ? 0 : 1, kUnits.at(unit));
}

constexpr std::string_view kOperationLine = "{:<36} {:<20} {:>6} {:>9} {:>11} {:>10} {:>9} {:>6}\n";

std::string operation_line(const OperationRow& row, Time all) {
  return fmt::format(kOperationLine, cut(name_of_row(row), kNameWidth), cut(row.where, 20),
                     row.count, bytes_text(row.bytes), fmt::format("{:.3f}", us(row.total)),
                     row.kind == "kernel" ? "" : fmt::format("{:.3f}", us(row.exposed)),
                     fmt::format("{:.3f}", us(row.slack)),
                     fmt::format("{:.1f}", percent(row.total, all)));
}

Time sum_totals(const std::vector<OperationRow>& rows) {
  Time sum{0};
  for (const OperationRow& row : rows) sum += row.total;
  return sum;
}

std::vector<OperationRow> sorted(std::vector<OperationRow> rows, SortBy by) {
  const auto descend = [&](auto field) {
    std::ranges::stable_sort(rows, std::ranges::greater{}, field);
  };
  switch (by) {
    case SortBy::total:
      descend(&OperationRow::total);
      break;
    case SortBy::average:
      descend([](const OperationRow& row) { return row.total / row.count; });
      break;
    case SortBy::longest:
      descend(&OperationRow::longest);
      break;
    case SortBy::slack:
      std::ranges::stable_sort(rows, {}, &OperationRow::slack);
      break;
    case SortBy::exposed:
      descend(&OperationRow::exposed);
      break;
    case SortBy::count:
      descend(&OperationRow::count);
      break;
    case SortBy::bytes:
      descend(&OperationRow::bytes);
      break;
  }
  return rows;
}

std::string units_text(const Profile& profile) {
  std::vector<sim::UnitClassUse> used(profile.units.begin(), profile.units.end());
  std::ranges::stable_sort(used, std::ranges::greater{},
                           [](const sim::UnitClassUse& use) { return use.busiest.busy; });
  used.resize(kMostUnitClasses);
  std::string text;
  for (const sim::UnitClassUse& use : used) {
    if (use.total == Time{0}) continue;
    text += fmt::format("{:<5} mean {:>5.1f} %, most {:>5.1f} %: {}\n", name_of(use.unit_class),
                        100 * use.mean_share(), 100 * use.busiest.share(), use.busiest.unit);
  }
  if (text.empty()) return text;
  const auto& [read, written] = profile.tcm;
  if (read + written > 0) {
    text += fmt::format("PE_GEMM and PE_MATH read {} of TCM and wrote {}\n", bytes_text(read),
                        bytes_text(written));
  }
  return fmt::format("units, of the time in which kernels ran{}\n{}",
                     profile.is_timed() ? ", the whole run" : "", text);
}

// "compute 61.0 %, link bytes 20.1 %", the largest first.
std::string causes_text(const Profile& profile) {
  std::vector<std::pair<Time, sim::Cause>> causes;
  for (std::size_t i = 0; i < profile.path.by_cause.size(); ++i) {
    const Time total = profile.path.by_cause.at(i);
    if (percent(total, profile.duration()) >= kLeastPercent)
      causes.emplace_back(total, static_cast<sim::Cause>(i));
  }
  std::ranges::stable_sort(causes, std::ranges::greater{}, &std::pair<Time, sim::Cause>::first);
  std::string text;
  for (const auto& [total, cause] : causes) {
    text += fmt::format("{}{} {:.1f} %", text.empty() ? "" : ", ", name_of(cause),
                        percent(total, profile.duration()));
  }
  return text;
}

std::string path_text(const Profile& profile) {
  if (profile.path.edges.empty()) return "";
  std::string text = wrapped(
      fmt::format("critical path, {:.3f} us: {}", us(profile.duration()), causes_text(profile)),
      "  ");
  text += '\n';
  for (std::size_t i = 0; i < std::min(kMostPathRows, profile.path.rows.size()); ++i) {
    const PathRow& row = profile.path.rows[i];
    text += fmt::format("{:<12} {:<30} {:>6} times {:>11.3f} us {:>6.1f} %\n", name_of(row.cause),
                        row.places_text(), row.count, us(row.total),
                        percent(row.total, profile.duration()));
  }
  return text;
}

// "message 1.200 us, link 0.100 us"
std::string describe_causes(const sim::Waits& waits) {
  std::string text;
  for (const sim::WaitCause cause : sim::kWaitCauses) {
    if (waits[cause] == Time{0}) continue;
    text +=
        fmt::format("{}{} {:.3f} us", text.empty() ? "" : ", ", name_of(cause), us(waits[cause]));
  }
  return text;
}

std::string pe_waits_text(const Profile& profile) {
  const PeWaits& waits = profile.pe_waits;
  if (waits.pe.empty()) return "";
  const auto line = [](std::string_view who, const sim::Waits& of) {
    return wrapped(fmt::format("{} {}", who, describe_causes(of)), "  ") + '\n';
  };
  return line("PEs waited, summed over all of them, for", waits.all) +
         line(waits.pe + " most:", waits.most);
}

std::string waits_text(const Profile& profile) {
  std::string text;
  for (std::size_t i = 0; i < std::min(kMostWaits, profile.waits.size()); ++i) {
    const WaitRow& row = profile.waits[i];
    text += fmt::format("{:<60} {:<20} {:>5} {:>11.3f} us\n", cut(row.what, 60), cut(row.where, 20),
                        row.count, us(row.total));
  }
  return text.empty() ? text : "ranks waited, summed over all of them, for\n" + text;
}

}  // namespace

SortBy parse_sort_by(std::string_view name) {
  constexpr std::array<std::pair<std::string_view, SortBy>, 14> kNames = {{
      {"", SortBy::total},
      {"total", SortBy::total},
      {"cuda_time_total", SortBy::total},
      {"device_time_total", SortBy::total},
      {"self_cuda_time_total", SortBy::total},
      {"self_device_time_total", SortBy::total},
      {"average", SortBy::average},
      {"cuda_time", SortBy::average},
      {"device_time", SortBy::average},
      {"longest", SortBy::longest},
      {"exposed", SortBy::exposed},
      {"slack", SortBy::slack},
      {"count", SortBy::count},
      {"bytes", SortBy::bytes},
  }};
  std::string known;
  for (const auto& [text, by] : kNames) {
    if (text == name) return by;
    if (!text.empty()) known += fmt::format("{}{}", known.empty() ? "" : ", ", text);
  }
  throw CollectiveError(
      "KB-R031", "table: sort_by '{}' is no figure of an operation on a device; there are: {}",
      name, known);
}

std::string table(const Profile& profile, SortBy sort_by, std::size_t row_limit) {
  return operation_table(profile.operations, sort_by, row_limit);
}

std::string operation_table(const std::vector<OperationRow>& operations, SortBy sort_by,
                            std::size_t row_limit) {
  const Time all = sum_totals(operations);
  std::string text = fmt::format(kOperationLine, "name", "line", "calls", "bytes", "total us",
                                 "exposed us", "slack us", "%");
  const std::vector<OperationRow> rows = sorted(operations, sort_by);
  for (std::size_t i = 0; i < std::min(row_limit, rows.size()); ++i) {
    text += operation_line(rows[i], all);
  }
  if (rows.size() > row_limit) text += fmt::format("and {} more\n", rows.size() - row_limit);
  return text;
}

std::string explain(const Profile& profile) {
  std::string text =
      fmt::format("where {:.3f} us went, {}\n", us(profile.duration()), part_text(profile));
  text += ranks_text(profile);
  text += table(profile, SortBy::total, kMostOperations);
  return text + path_text(profile) + units_text(profile) + launches_text(profile) +
         pe_waits_text(profile) + waits_text(profile);
}

}  // namespace kernbench::runtime
