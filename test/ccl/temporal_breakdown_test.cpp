#include "test/ccl/temporal_breakdown.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>

namespace kernbench::test {

namespace {

using Json = nlohmann::json;

struct Interval {
  Time start{0};
  Time end{0};
};

Time time_of(const Json& us) {
  return Time{std::llround(us.get<double>() * 1e6)};
}

// Intervals that touch become one.
std::vector<Interval> merged(std::vector<Interval> all) {
  std::ranges::sort(all, {}, &Interval::start);
  std::vector<Interval> result;
  for (const Interval& one : all) {
    if (result.empty() || one.start > result.back().end) {
      result.push_back(one);
    } else {
      result.back().end = std::max(result.back().end, one.end);
    }
  }
  return result;
}

Time length_of(const std::vector<Interval>& intervals) {
  Time length{0};
  for (const Interval& one : intervals) length += one.end - one.start;
  return length;
}

}  // namespace

TemporalBreakdown temporal_breakdown_of(const std::string& trace) {
  const Json document = Json::parse(trace);
  std::vector<Interval> all;
  std::vector<Interval> computation;
  std::vector<Interval> communication;
  for (const Json& event : document["traceEvents"]) {
    if (!event.contains("dur") || !event["args"].contains("stream")) continue;
    const Time start = time_of(event["ts"]);
    const Interval interval{start, start + time_of(event["dur"])};
    const auto name = event["name"].get<std::string>();
    const auto has = [&](std::string_view part) { return name.find(part) != name.npos; };
    all.push_back(interval);
    if (has("ncclKernel")) {
      communication.push_back(interval);
    } else if (!has("Memcpy") && !has("Memset")) {
      computation.push_back(interval);
    }
  }
  TemporalBreakdown result{.rank = document["distributedInfo"]["rank"]};
  const std::vector<Interval> device = merged(all);
  if (device.empty()) return result;
  result.kernel_time = device.back().end - device.front().start;
  result.idle = result.kernel_time - length_of(device);
  result.compute = length_of(merged(computation));
  result.non_compute = result.kernel_time - result.compute - result.idle;
  std::vector<Interval> both = merged(computation);
  std::ranges::copy(merged(communication), std::back_inserter(both));
  result.overlapped =
      length_of(merged(computation)) + length_of(merged(communication)) - length_of(merged(both));
  return result;
}

TEST_CASE("the rules of the temporal breakdown, by hand", "[ccl][profile][kineto]") {
  const TemporalBreakdown found = temporal_breakdown_of(R"({"distributedInfo": {"rank": 3},
    "traceEvents": [
      {"name": "Memset", "ts": 0, "dur": 0, "args": {"stream": 7}},
      {"name": "add", "ts": 1, "dur": 2.5, "args": {"stream": 7}},
      {"name": "mul", "ts": 3, "dur": 1, "args": {"stream": 8}},
      {"name": "ncclKernel_AllReduce", "ts": 2, "dur": 5, "args": {"stream": 20}},
      {"name": "forward", "ts": 0, "dur": 99, "args": {}},
      {"name": "process_name", "args": {"name": "rank 3"}},
      {"name": "Memset", "ts": 10, "dur": 0, "args": {"stream": 7}}]})");
  constexpr Time kUs{1'000'000};
  CHECK(found.rank == 3);
  CHECK(found.kernel_time == 10 * kUs);
  CHECK(found.compute == 3 * kUs);
  CHECK(found.non_compute == 3 * kUs);
  CHECK(found.idle == 4 * kUs);
  CHECK(found.overlapped == 2 * kUs);
}

}  // namespace kernbench::test
