#include "benches/page/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string_view>

#include "benches/bench/cell_text.h"
#include "benches/figure/number_text.h"
#include "benches/figure/style.h"
#include "benches/figure/svg.h"
#include "benches/page/charts.h"
#include "benches/page/drawing.h"
#include "benches/page/heat_map.h"
#include "benches/page/path_strip.h"
#include "benches/page/style_sheet.h"
#include "benches/page/timeline.h"
#include "benches/page/what_if.h"
#include "runtime/profiler/profile.h"
#include "runtime/simulation/simulation.h"

namespace kernbench::benches::page {

namespace {

using figure::escaped;
using runtime::OperationRow;
using runtime::Profile;
using runtime::RankTime;

constexpr std::size_t kMostRanks = 64;
constexpr std::size_t kMostRows = 40;

std::string us(Time time) {
  return fmt::format("{:.3f}", to_ns(time) / 1e3);
}

double percent(Time part, Time whole) {
  if (whole == Time{0}) return 0;
  return 100 * static_cast<double>(part.count()) / static_cast<double>(whole.count());
}

std::string write_head(const Heading& heading) {
  std::string facts;
  for (const auto& [name, value] : heading.facts) {
    facts += fmt::format("<dt>{}</dt><dd>{}</dd>\n", escaped(name), escaped(value));
  }
  return fmt::format("<h1>{}</h1>\n<dl>\n{}</dl>\n", escaped(heading.title), facts);
}

// The key of colours, each a class of the style sheet.
std::string key(std::initializer_list<std::pair<std::string_view, std::string_view>> colours) {
  std::string text = "<p class=key>";
  for (const auto& [style, name] : colours) {
    text += fmt::format("<span><i class={}></i>{}</span>", style, name);
  }
  return text + "</p>\n";
}

std::string pipeline_key() {
  std::string text = "<p class=key>";
  for (const figure::ActionStyle& action : figure::kActionStyles) {
    text += fmt::format("<span><i class=action_{}></i>{}</span>", action.letter, action.name);
  }
  return text + "</p>\n";
}

std::string pipeline_styles() {
  std::string text;
  for (const figure::ActionStyle& action : figure::kActionStyles) {
    text += fmt::format(".action_{0}{{fill:{1};background:{1}}}\n", action.letter, action.colour);
  }
  return text;
}

// Says so where a table or a chart leaves out what there is more of.
std::string of_all(std::size_t shown, std::size_t all, std::string_view what) {
  return shown >= all ? "" : fmt::format("<p>The first {} of {} {}.</p>\n", shown, all, what);
}

std::string rank_bars(const Profile& profile) {
  constexpr double kLeft = 60;
  constexpr double kWidth = 920;
  const std::size_t count = std::min(kMostRanks, profile.ranks.size());
  Drawing drawing(1000, 18 * static_cast<double>(count), "What each rank's device did");
  double y = 0;
  for (std::size_t i = 0; i < count; ++i, y += 18) {
    const RankTime& rank = profile.ranks[i];
    drawing.text({0, y + 13}, fmt::format("rank {}", rank.rank));
    double x = kLeft;
    const auto part = [&](Time time, std::string_view style, std::string_view what) {
      const double share = percent(time, profile.duration());
      if (share == 0) return;
      drawing.box({x, y + 2, kWidth * share / 100, 14}, style,
                  fmt::format("rank {}: {} {:.1f} %, {} us", rank.rank, what, share, us(time)));
      x += kWidth * share / 100;
    };
    part(rank.compute_only, "kernel", "compute only");
    part(rank.both, "both", "both");
    part(rank.exposed, "collective", "exposed communication");
    part(rank.idle, "idle", "idle");
  }
  return std::move(drawing).finish();
}

std::string rank_table(const Profile& profile) {
  std::string rows =
      "<table><tr><th>rank<th class=n>compute only<th class=n>both<th class=n>exposed "
      "communication<th class=n>idle</tr>\n";
  for (std::size_t i = 0; i < std::min(kMostRanks, profile.ranks.size()); ++i) {
    const RankTime& rank = profile.ranks[i];
    rows += fmt::format("<tr><td>{}", rank.rank);
    for (const Time time : {rank.compute_only, rank.both, rank.exposed, rank.idle}) {
      rows += fmt::format("<td class=n>{:.1f} %", percent(time, profile.duration()));
    }
    rows += "</tr>\n";
  }
  return rows + "</table>\n";
}

std::string operation_table(const Profile& profile) {
  std::string rows =
      "<table><tr><th>name<th>phase<th>line<th>group<th>algorithm<th class=n>calls<th "
      "class=n>bytes<th class=n>total us<th class=n>exposed<th class=n>longest<th "
      "class=n>slack</tr>\n";
  for (std::size_t i = 0; i < std::min(kMostRows, profile.operations.size()); ++i) {
    const OperationRow& row = profile.operations[i];
    rows += fmt::format(
        "<tr><td>{}<td>{}<td>{}<td>{}<td>{}<td class=n>{}<td class=n>{}<td class=n>{}<td "
        "class=n>{}<td class=n>{}<td class=n>{}</tr>\n",
        escaped(row.part.empty() ? row.name : row.name + ", " + row.part), escaped(row.phase),
        escaped(row.where), row.group < 0 ? "" : fmt::to_string(row.group), escaped(row.algorithm),
        row.count, row.bytes, us(row.total), row.kind == "kernel" ? "" : us(row.exposed),
        us(row.longest), us(row.slack));
  }
  return rows + "</table>\n";
}

std::string unit_table(const Profile& profile) {
  std::string rows =
      "<table><tr><th>class<th class=n>units<th class=n>mean<th class=n>most<th>busiest</tr>\n";
  for (const sim::UnitClassUse& use : profile.units) {
    if (use.total == Time{0}) continue;
    rows +=
        fmt::format("<tr><td>{}<td class=n>{}<td class=n>{:.1f} %<td class=n>{:.1f} %<td>{}</tr>\n",
                    name_of(use.unit_class), use.count, 100 * use.mean_share(),
                    100 * use.busiest.share(), use.busiest.unit);
  }
  return rows +
         fmt::format("</table>\n<p>PE_GEMM and PE_MATH read {} B of TCM and wrote {} B.</p>\n",
                     profile.tcm.read, profile.tcm.written);
}

std::string wait_table(const Profile& profile) {
  std::string rows =
      "<table><tr><th>what<th>line<th class=n>waits<th class=n>total us<th class=n>most of one "
      "rank, us</tr>\n";
  for (std::size_t i = 0; i < std::min(kMostRows, profile.waits.size()); ++i) {
    const runtime::WaitRow& row = profile.waits[i];
    rows += fmt::format("<tr><td>{}<td>{}<td class=n>{}<td class=n>{}<td class=n>{}</tr>\n",
                        escaped(row.what), escaped(row.where), row.count, us(row.total),
                        us(row.longest));
  }
  return rows + "</table>\n";
}

std::string describe_time(const Profile& profile) {
  if (!profile.is_timed()) return "";
  return fmt::format(" Shown are the {} us that the bench times, of {} us.", us(profile.duration()),
                     us(profile.run));
}

std::string cell_text(const Cell& cell) {
  const auto* const number = std::get_if<double>(&cell);
  return number != nullptr && *number >= 0 ? figure::rounded_text(*number) : to_text(cell);
}

std::string row_table(const std::vector<Row>& rows) {
  const std::span shown(rows.data(), std::min(kMostRows, rows.size()));
  std::vector<std::string> columns;
  for (const Row& row : shown) {
    for (const auto& [column, cell] : row.cells()) {
      if (std::ranges::find(columns, column) == columns.end()) columns.push_back(column);
    }
  }
  std::string text = "<table><tr>";
  for (const std::string& column : columns) text += "<th class=n>" + escaped(column);
  text += "</tr>\n";
  for (const Row& row : shown) {
    text += "<tr>";
    for (const std::string& column : columns) {
      const Cell* const cell = row.find(column);
      text += "<td class=n>" + (cell == nullptr ? "" : escaped(cell_text(*cell)));
    }
    text += "</tr>\n";
  }
  return text + "</table>\n" + of_all(kMostRows, rows.size(), "rows");
}

std::string write_sections(const Profile& profile, const runtime::Simulation& simulation,
                           const Heading& heading) {
  const runtime::RunLog& log = *simulation.run_log();
  std::string text = section("What each rank did",
                             fmt::format("At every moment one of four.{}", describe_time(profile)),
                             key({{"kernel", "compute only"},
                                  {"both", "both"},
                                  {"collective", "exposed communication"},
                                  {"idle", "idle"}}) +
                                 rank_bars(profile) + rank_table(profile) +
                                 of_all(kMostRanks, profile.ranks.size(), "ranks"));
  const bool has_pipeline = std::ranges::any_of(log.spans(), [](const runtime::RunSpan& span) {
    return span.kind == runtime::RunSpan::Kind::action;
  });
  text += section("When", "",
                  key({{"kernel", "kernel"},
                       {"collective", "collective"},
                       {"message", "message"},
                       {"wait", "the program waits"}}) +
                      (has_pipeline ? pipeline_key() : "") + timeline(log, profile.parts) +
                      of_all(kMostDrawnRanks, profile.ranks.size(), "ranks"));
  if (const std::string strip = path_strip(profile); !strip.empty()) {
    text += section("Critical path", "What the time that is shown was spent on, over all ranks.",
                    strip);
  }
  if (!heading.gains.empty()) {
    text += section("What if", "The run again, with one resource of the machine faster.",
                    what_if(heading.gains));
  }
  text += section("Kernels, collectives and messages", "",
                  operation_table(profile) + of_all(kMostRows, profile.operations.size(), "rows"));
  text += section("Links",
                  "Busy with kernels' data, of the time in which kernels ran, in the whole run.",
                  heat_map(simulation.machine()));
  text += section("Units", "Busy with kernels, of the time in which kernels ran, in the whole run.",
                  unit_table(profile));
  if (const std::string chart = energy(heading.energy); !chart.empty()) {
    text +=
        section("Energy", "Of what is timed: work, times what the topology says it takes.", chart);
  }
  if (const std::string chart = roofline(profile, simulation.topology()); !chart.empty()) {
    text += section("Roofline", "A point for each kernel.", chart);
  }
  text += section("What ranks waited for", "",
                  wait_table(profile) + of_all(kMostRows, profile.waits.size(), "rows"));
  if (const std::string chart = memory(log, profile.run); !chart.empty()) {
    text += section("HBM that tensors hold", "In the whole run.", chart);
  }
  return text;
}

}  // namespace

std::string report_page(const Heading& heading, const runtime::Simulation& simulation,
                        runtime::ProfiledTime time) {
  const Profile profile = runtime::make_profile(simulation, time);
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=en>\n<meta charset=utf-8>\n<meta name=viewport "
      "content=\"width=device-width, initial-scale=1\">\n<title>{}</title>\n<style>\n{}</style>\n"
      "<body>\n{}{}{}</body>\n</html>\n",
      escaped(heading.title), std::string(style_sheet()) + pipeline_styles(), write_head(heading),
      heading.rows.empty() ? "" : section("Results", "", row_table(heading.rows)),
      write_sections(profile, simulation, heading));
}

}  // namespace kernbench::benches::page
