#include <fmt/format.h>

#include "runtime/profiler/profile.h"
#include "runtime/profiler/profile_text.h"

namespace kernbench::runtime {

namespace {

// "the timed part, 2048 B," or "the 4 timed parts"
std::string name_timed_parts(const Profile& profile) {
  const std::size_t count = profile.parts.size();
  return count == 1 ? fmt::format("the timed part, {},", profile.parts.front().name)
                    : fmt::format("the {} timed parts", count);
}

}  // namespace

double percent(Time part, Time whole) {
  return whole == Time{0}
             ? 0
             : 100 * static_cast<double>(part.count()) / static_cast<double>(whole.count());
}

double us(Time time) {
  return to_ns(time) / 1e3;
}

std::string cut(const std::string& text, std::size_t width) {
  return text.size() <= width ? text : text.substr(0, width - 3) + "...";
}

std::string part_text(const Profile& profile) {
  if (profile.is_timed()) {
    return fmt::format("{} of a run of {:.3f} us\nnot timed: {:.3f} us before, between and after",
                       name_timed_parts(profile), us(profile.run),
                       us(profile.run - profile.duration()));
  }
  const TimedPart& part = profile.parts.front();
  if (part.from == Time{0}) return "the whole run";
  return fmt::format("the run from {:.3f} us to {:.3f} us", us(part.from), us(part.to));
}

std::string rank_line(const RankTime& rank, Time whole) {
  return fmt::format("{:>6} {:>13.1f} % {:>6.1f} % {:>15.1f} % {:>6.1f} %\n", rank.rank,
                     percent(rank.compute_only, whole), percent(rank.both, whole),
                     percent(rank.exposed, whole), percent(rank.idle, whole));
}

std::string launches_text(const Profile& profile) {
  const LaunchTime& time = profile.launches;
  if (time.total() == Time{0}) return "";
  return fmt::format(
      "launches of rank {}: {:.3f} us = queued {:.3f} + launch {:.3f} + skew {:.3f} + kernel "
      "{:.3f} "
      "+ return "
      "{:.3f}\n",
      profile.launch_rank, us(time.total()), us(time.queued), us(time.launch), us(time.skew),
      us(time.kernel), us(time.back));
}

namespace {

std::string rank_table(const Profile& profile) {
  std::string text = fmt::format("{}\n", kRankHead);
  for (const RankTime& rank : profile.ranks) text += rank_line(rank, profile.duration());
  return text;
}

std::string unit_table(const Profile& profile) {
  std::string text = fmt::format("{:<6} {:>7} {:>8} {:>8}  {}\n", "units", "count", "mean %",
                                 "most %", "busiest, of the time in which kernels ran");
  for (const sim::UnitClassUse& use : profile.units) {
    if (use.total == Time{0}) continue;
    text += fmt::format("{:<6} {:>7} {:>8.1f} {:>8.1f}  {}\n", name_of(use.unit_class), use.count,
                        100 * use.mean_share(), 100 * use.busiest.share(), use.busiest.unit);
  }
  return text;
}

std::string pe_wait_table(const Profile& profile) {
  const PeWaits& waits = profile.pe_waits;
  if (waits.pe.empty()) return "";
  std::string text = fmt::format("{:<10} {:>16} {:>16}\n", "wait for", "all PEs us", waits.pe);
  for (const sim::WaitCause cause : sim::kWaitCauses) {
    if (waits.all[cause] == Time{0}) continue;
    text += fmt::format("{:<10} {:>16.3f} {:>16.3f}\n", name_of(cause), us(waits.all[cause]),
                        us(waits.most[cause]));
  }
  return text;
}

std::string rank_wait_table(const Profile& profile) {
  if (profile.waits.empty()) return "";
  std::string text = fmt::format("{:<60} {:<20} {:>6} {:>11} {:>11}\n", "ranks waited for", "line",
                                 "waits", "total us", "one rank us");
  for (const WaitRow& row : profile.waits) {
    text += fmt::format("{:<60} {:<20} {:>6} {:>11.3f} {:>11.3f}\n", cut(row.what, 60),
                        cut(row.where, 20), row.count, us(row.total), us(row.longest));
  }
  return text;
}

}  // namespace

std::string summary(const Profile& profile) {
  constexpr std::size_t kMostRows = 100;
  const auto& operations = profile.by_module.empty() ? profile.operations : profile.by_module;
  return fmt::format("{:.3f} us, {}\n{}\n{}\n{}\n{}{}\n{}", us(profile.duration()),
                     part_text(profile), rank_table(profile),
                     operation_table(operations, SortBy::total, kMostRows), unit_table(profile),
                     launches_text(profile), pe_wait_table(profile), rank_wait_table(profile));
}

}  // namespace kernbench::runtime
