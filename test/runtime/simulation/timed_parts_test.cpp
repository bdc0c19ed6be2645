#include "runtime/simulation/timed_parts.h"

#include <catch2/catch.hpp>
#include <utility>

namespace kernbench::test::timed_parts_test {
namespace {

using runtime::TimedPart;
using runtime::TimedParts;

using Bounds = std::vector<std::pair<std::int64_t, std::int64_t>>;

Bounds bounds_of(const TimedParts& parts) {
  Bounds bounds;
  for (const TimedPart& part : parts.all()) bounds.emplace_back(part.from.count(), part.to.count());
  return bounds;
}

TEST_CASE("parts that overlap become one, whatever their order, and those that touch do not",
          "[timed]") {
  TimedParts parts;
  parts.add({"b", Time{60}, Time{90}});
  parts.add({"a", Time{10}, Time{20}});
  parts.add({"c", Time{100}, Time{110}});
  CHECK(bounds_of(parts) == Bounds{{10, 20}, {60, 90}, {100, 110}});
  parts.add({"d", Time{20}, Time{30}});
  CHECK(bounds_of(parts) == Bounds{{10, 20}, {20, 30}, {60, 90}, {100, 110}});
  parts.add({"e", Time{25}, Time{95}});
  CHECK(bounds_of(parts) == Bounds{{10, 20}, {20, 95}, {100, 110}});
  CHECK(parts.all()[1].name == "d");
  CHECK(runtime::sum_durations(parts.all()) == Time{95});
}

TEST_CASE("a part is known to be over by the event of its last end", "[timed]") {
  TimedParts parts;
  parts.add({"step", Time{10}, Time{50}, sim::CauseId{5}});
  parts.add({"step", Time{12}, Time{40}, sim::CauseId{4}});
  CHECK(parts.all().front().known_at == sim::CauseId{5});
  parts.add({"step", Time{12}, Time{60}, sim::CauseId{6}});
  CHECK(parts.all().front().known_at == sim::CauseId{6});
}

TEST_CASE("a part without time is none", "[timed]") {
  TimedParts parts;
  parts.add({"empty", Time{10}, Time{10}});
  CHECK(parts.all().empty());
}

}  // namespace
}  // namespace kernbench::test::timed_parts_test
