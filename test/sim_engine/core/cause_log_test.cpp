// The longest chain of causes, by hand.

#include "sim_engine/core/cause_log.h"

#include <catch2/catch.hpp>
#include <tuple>
#include <vector>

namespace kernbench::sim::cause_log_test {
namespace {

using Path = std::vector<std::tuple<Cause, std::uint32_t, std::int64_t, std::int64_t>>;

Path path_of(const CauseLog& log, CauseLog::Id last, std::int64_t from, std::int64_t to) {
  Path path;
  for (const CauseLog::Edge& edge : log.critical_path(last, Time{from}, Time{to})) {
    path.emplace_back(edge.why, edge.place, edge.start.count(), edge.end.count());
  }
  return path;
}

TEST_CASE("a path follows causes without a gap, and neighbours of one kind and place are one edge",
          "[causes]") {
  CauseLog log(Time{0});
  const auto issued = log.add(CauseLog::Id::begin, Time{10}, Cause::issue, 1);
  const auto first = log.add(issued, Time{30}, Cause::dma, 1);
  const auto second = log.add(first, Time{45}, Cause::dma, 1);
  const auto elsewhere = log.add(second, Time{50}, Cause::dma, 2);
  const auto last = log.add(elsewhere, Time{70}, Cause::compute, 2);
  CHECK(log.add(last, Time{60}, Cause::other) == last);  // no later than its cause
  CHECK(path_of(log, last, 0, 70) == Path{{Cause::issue, 1, 0, 10},
                                          {Cause::dma, 1, 10, 45},
                                          {Cause::dma, 2, 45, 50},
                                          {Cause::compute, 2, 50, 70}});
  CHECK(path_of(log, last, 20, 48) == Path{{Cause::dma, 1, 20, 45}, {Cause::dma, 2, 45, 48}});
}

}  // namespace
}  // namespace kernbench::sim::cause_log_test
