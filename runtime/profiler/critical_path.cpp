#include "runtime/profiler/critical_path.h"

#include <algorithm>
#include <map>
#include <utility>

#include "runtime/simulation/simulation.h"
#include "sim_engine/base/check.h"
#include "sim_engine/base/units.h"

namespace kernbench::runtime {

namespace {

using sim::Cause;
using sim::CauseLog;

// The edges in the profile's time; those that cross its beginning are cut.
std::vector<CauseLog::Edge> collect_edges(const CauseLog& causes, const Profile& profile) {
  std::vector<CauseLog::Edge> edges = causes.critical_path(profile.to);
  std::erase_if(edges, [&](const auto& edge) { return edge.end <= profile.from; });
  if (!edges.empty()) edges.front().start = std::max(edges.front().start, profile.from);
  return edges;
}

void check_length(const std::vector<CauseLog::Edge>& edges, const Profile& profile) {
  Time at = profile.from;
  for (const CauseLog::Edge& edge : edges) {
    KB_CHECK(edge.start == at && edge.end > at, "an edge of the path from {} to {} after {}",
             edge.start, edge.end, at);
    at = edge.end;
  }
  KB_CHECK(at == profile.to, "the path ends at {}, the run at {}", at, profile.to);
}

}  // namespace

CriticalPath find_critical_path(const Simulation& simulation, const Profile& profile) {
  CriticalPath path;
  const CauseLog* const causes = simulation.machine().engine().causes();
  if (causes == nullptr) return path;
  path.edges = collect_edges(*causes, profile);
  check_length(path.edges, profile);
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
  std::ranges::stable_sort(path.rows, std::ranges::greater{}, &PathRow::total);
  return path;
}

}  // namespace kernbench::runtime
