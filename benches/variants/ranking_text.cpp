// Contests as sentences, and as rows for machines.

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "benches/bench/cell.h"
#include "benches/variants/ranking.h"
#include "sim_engine/base/line_width.h"

namespace kernbench::benches::variants {

namespace {

constexpr std::size_t kMostContests = 40;

// The number with the fewest digits that is above `below` and at most `above`.
double round_between(double below, double above) {
  for (int digits = 1; digits < 17; ++digits) {
    const std::string text = fmt::format("{:.{}g}", (below + above) / 2, digits);
    const double rounded = std::strtod(text.c_str(), nullptr);
    if (below < rounded && rounded <= above) return rounded;
  }
  return above;
}

// "system.sip_link.latency < 420 ns"
std::string describe(const Split& split, const Samples& samples) {
  const Range& range = samples.ranges[split.range];
  const double threshold = round_between(split.below, split.above);
  return fmt::format("{} {} {}{}", range.key->name, split.wins_below ? "<" : ">=", threshold,
                     range.unit.empty() ? "" : " " + range.unit);
}

std::string describe_wins(const Contest& contest) {
  const auto& [winner, most] = contest.wins.front();
  std::string text = most == 0
                         ? "nobody is fastest"
                         : fmt::format("{} wins in {} of {}", winner, most, contest.run_count);
  for (std::size_t i = 1; i < contest.wins.size(); ++i) {
    const auto& [name, wins] = contest.wins[i];
    if (wins > 0) text += fmt::format(", {} in {}", name, wins);
  }
  if (contest.tie_count > 0) text += fmt::format(", two are equal in {}", contest.tie_count);
  return text;
}

std::string describe_cause(const Contest& contest, const Samples& samples) {
  if (!contest.split) return "";
  const std::string split = describe(*contest.split, samples);
  if (contest.is_decided(samples.ranges.size())) {
    return fmt::format(": {} iff {} ({} of {} runs agree)", contest.wins.front().first, split,
                       contest.split->agreeing, contest.run_count);
  }
  const bool agrees = contest.split->agreeing * 10 >= contest.run_count * 9;
  return fmt::format("; {}: {} agrees with {} of {}",
                     agrees ? "too few to say what decides" : "no single figure decides", split,
                     contest.split->agreeing, contest.run_count);
}

}  // namespace

std::string to_text(std::span<const Contest> contests, const Samples& samples,
                    const std::string& by) {
  std::string text = fmt::format("#\n# the fastest {}\n", by);
  if (contests.empty()) text += fmt::format("# no two rows differ in {} alone\n", by);
  for (const Contest& contest : contests.first(std::min(contests.size(), kMostContests))) {
    const std::string name = contest.name.empty() ? "" : contest.name + ": ";
    text +=
        wrapped("# " + name + describe_wins(contest) + describe_cause(contest, samples), "#   ") +
        '\n';
  }
  if (contests.size() > kMostContests) {
    text += fmt::format("# and of {} more rows, in --json and --csv\n",
                        contests.size() - kMostContests);
  }
  return text;
}

std::vector<Row> to_rows(std::span<const Contest> contests, const Samples& samples,
                         const std::string& by) {
  std::vector<Row> rows;
  for (const Contest& contest : contests) {
    const auto& [winner, most] = contest.wins.front();
    Row row;
    row.set("fastest", by)
        .set("winner", most == 0 ? std::string("none") : winner)
        .set("wins", most)
        .set("ties", contest.tie_count)
        .set("runs", contest.run_count)
        .set("decided", contest.is_decided(samples.ranges.size()));
    if (contest.split) {
      const Split& split = *contest.split;
      row.set("depends_on", samples.ranges[split.range].key->name)
          .set("wins_if", split.wins_below ? "below" : "above")
          .set("threshold_low", split.below)
          .set("threshold_high", split.above)
          .set("unit", samples.ranges[split.range].unit)
          .set("agreeing", split.agreeing);
    }
    for (const auto& [column, cell] : contest.row.cells()) {
      if (row.find(column) == nullptr) row.set_cell(column, cell);
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace kernbench::benches::variants
