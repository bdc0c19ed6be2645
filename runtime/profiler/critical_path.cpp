#include "runtime/profiler/critical_path.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "runtime/simulation/simulation.h"
#include "sim_engine/base/check.h"
#include "sim_engine/base/units.h"

namespace kernbench::runtime {

namespace {

using sim::Cause;
using sim::CauseLog;

void check_length(const std::vector<CauseLog::Edge>& edges, const TimedPart& part) {
  Time at = part.from;
  for (const CauseLog::Edge& edge : edges) {
    KB_CHECK(edge.start == at && edge.end > at, "an edge of the path from {} to {} after {}",
             edge.start, edge.end, at);
    at = edge.end;
  }
  KB_CHECK(at == part.to, "the path ends at {}, the part of the run at {}", at, part.to);
}

std::vector<CauseLog::Edge> collect_edges(const CauseLog& causes, const Profile& profile) {
  std::vector<CauseLog::Edge> all;
  for (const TimedPart& part : profile.parts) {
    const auto edges = causes.critical_path(part.known_at, part.from, part.to);
    check_length(edges, part);
    all.insert(all.end(), edges.begin(), edges.end());
  }
  return all;
}

// Joins the rows of places that are alike, such as the slices of HBM that a copy fills in turn.
void join_alike(std::vector<PathRow>& rows) {
  std::vector<PathRow> joined;
  std::map<std::tuple<Cause, std::optional<sim::UnitClass>, std::int64_t, Time>, std::size_t> known;
  for (PathRow& row : rows) {
    const std::tuple kind(row.cause, row.link_class, row.count, row.total);
    const auto [first, is_new] = known.emplace(kind, joined.size());
    if (is_new) {
      joined.push_back(std::move(row));
      continue;
    }
    PathRow& like = joined[first->second];
    ++like.place_count;
    like.count += row.count;
    like.total += row.total;
  }
  rows = std::move(joined);
  std::ranges::stable_sort(rows, std::ranges::greater{}, &PathRow::total);
}

}  // namespace

std::string PathRow::places_text() const {
  return place_count == 1 ? place : fmt::format("{} and {} alike", place, place_count - 1);
}

CriticalPath find_critical_path(const Simulation& simulation, const Profile& profile) {
  CriticalPath path;
  const CauseLog* const causes = simulation.machine().engine().causes();
  if (causes == nullptr) return path;
  path.edges = collect_edges(*causes, profile);
  std::map<std::pair<Cause, std::string>, PathRow> rows;
  for (const CauseLog::Edge& edge : path.edges) {
    path.by_cause.at(static_cast<std::size_t>(edge.why)) += edge.length();
    std::string place = simulation.machine().place_name(edge.why, edge.place);
    PathRow& row = rows[{edge.why, place}];
    row.cause = edge.why;
    row.place = std::move(place);
    row.link_class = simulation.machine().find_link_class(edge.why, edge.place);
    ++row.count;
    row.total += edge.length();
  }
  for (auto& [key, row] : rows) path.rows.push_back(std::move(row));
  join_alike(path.rows);
  return path;
}

}  // namespace kernbench::runtime
