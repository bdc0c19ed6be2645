#include "sim_engine/core/cause_log.h"

#include <algorithm>
#include <array>

#include "sim_engine/base/check.h"

namespace kernbench::sim {

std::string_view name_of(Cause cause) {
  constexpr std::array<std::string_view, kCauseCount> kNames = {
      "host issue",   "launch",     "issue", "unit busy", "compute", "dma", "queue",
      "link latency", "link bytes", "HBM",   "credit",    "poll",    "TCM", "other"};
  return kNames.at(static_cast<std::size_t>(cause));
}

std::vector<CauseLog::Edge> CauseLog::critical_path(Id last, Time from, Time to) const {
  std::vector<Edge> path;
  const Time end = moments_[static_cast<std::size_t>(last)].at;
  KB_CHECK(end >= to, "the last event is known at {} ps, before {} ps", end.count(), to.count());
  Time at = to;
  for (Id id = last; id != Id::begin && at > from;) {
    const Moment& moment = moments_[static_cast<std::size_t>(id)];
    const Time start = std::max(moments_[static_cast<std::size_t>(moment.cause)].at, from);
    id = moment.cause;
    if (start >= to) continue;
    if (!path.empty() && path.back().why == moment.why() && path.back().place == moment.place()) {
      path.back().start = start;
    } else {
      path.push_back({moment.why(), moment.place(), start, at});
    }
    at = start;
  }
  std::ranges::reverse(path);
  return path;
}

}  // namespace kernbench::sim
