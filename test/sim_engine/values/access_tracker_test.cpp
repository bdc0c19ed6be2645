#include "sim_engine/values/access_tracker.h"

#include <catch2/catch.hpp>

#include "sim_engine/base/check.h"
#include "test/support/error_text.h"

namespace kernbench::sim::access_tracker_test {

using test::Says;

namespace {

constexpr RegionId kRegion{3, 0};
constexpr AccessOrigin kStore{"tl.store", {0, 1, 2}};
constexpr AccessOrigin kLoad{"tl.load", {1, 0, 7}};

std::string race_of(AccessTracker& tracker, const ElementRange& range, Access access,
                    const AccessOrigin& origin, Time now, RegionId region = kRegion) {
  return test::error_of<DeviceError>([&] { tracker.begin(region, range, access, origin, now); });
}

}  // namespace

TEST_CASE("a race names both operations, both PEs and both times", "[access_tracker]") {
  AccessTracker tracker;
  tracker.begin(kRegion, {0, 64}, Access::write, kStore, Time{120'000});
  CHECK_THAT(race_of(tracker, {32, 64}, Access::read, kLoad, Time{130'500}),
             Says("KB-M030", "elements 32..63 of region 3",
                  "tl.store by sip0.cube1.pe2 writes elements 0..63 since 120 ns",
                  "tl.load by sip1.cube0.pe7 reads elements 32..95 since 130.5 ns", "tl.recv"));
}

TEST_CASE("accesses race if they overlap, one writes and their PEs differ", "[access_tracker]") {
  AccessTracker tracker;
  const Access held = GENERATE(Access::read, Access::write);
  tracker.begin(kRegion, {10, 10}, held, kStore, Time{0});
  CHECK(race_of(tracker, {19, 5}, Access::write, kLoad, Time{1}) != "no error");
  CHECK(race_of(tracker, {0, 11}, Access::write, kLoad, Time{1}) != "no error");
  CHECK(race_of(tracker, {12, 2}, Access::write, kLoad, Time{1}) != "no error");
  CHECK(race_of(tracker, {0, 100}, Access::write, kLoad, Time{1}) != "no error");
  const bool held_writes = held == Access::write;
  CHECK((race_of(tracker, {19, 5}, Access::read, kLoad, Time{1}) != "no error") == held_writes);
}

TEST_CASE("accesses of one PE do not race", "[access_tracker]") {
  AccessTracker tracker;
  for (const Access access : {Access::write, Access::read, Access::write}) {
    CHECK(race_of(tracker, {10, 10}, access, kStore, Time{1}) == "no error");
  }
}

TEST_CASE("disjoint ranges, other regions and empty accesses do not race", "[access_tracker]") {
  AccessTracker tracker;
  tracker.begin(kRegion, {10, 10}, Access::write, kStore, Time{0});
  CHECK(race_of(tracker, {20, 5}, Access::write, kLoad, Time{1}) == "no error");
  CHECK(race_of(tracker, {0, 10}, Access::write, kLoad, Time{1}) == "no error");
  CHECK(race_of(tracker, {15, 0}, Access::write, kLoad, Time{1}) == "no error");
  CHECK(race_of(tracker, {10, 10}, Access::write, kLoad, Time{1}, RegionId{4, 0}) == "no error");
  CHECK(race_of(tracker, {10, 10}, Access::write, kLoad, Time{1}, RegionId{3, 1}) == "no error");
}

TEST_CASE("rows race where they overlap, not where they are apart", "[access_tracker]") {
  AccessTracker tracker;
  // Columns 0 to 3 of four rows of 10.
  tracker.begin(kRegion, {100, 4, 4, 10}, Access::write, kStore, Time{0});
  const auto race = [&](const ElementRange& range) {
    return race_of(tracker, range, Access::write, kLoad, Time{5'000});
  };
  CHECK(race({104, 6, 4, 10}) == "no error");
  CHECK(race({114, 6}) == "no error");
  CHECK_THAT(race({123, 7, 2, 10}),
             Says("KB-M030", "123..123", "100..103 and 3 more rows, 10 apart",
                  "123..129 and 1 more row, 10 apart"));
}

TEST_CASE("PEs differ by SIP, by cube or by number", "[access_tracker]") {
  AccessTracker tracker;
  tracker.begin(kRegion, {0, 1}, Access::write, {"tl.store", {1, 2, 3}}, Time{0});
  for (const PeLocation other : {PeLocation{0, 2, 3}, PeLocation{1, 0, 3}, PeLocation{1, 2, 0}}) {
    CHECK(race_of(tracker, {0, 1}, Access::read, {"tl.load", other}, Time{1}) != "no error");
  }
}

TEST_CASE("an access that has ended races with nothing", "[access_tracker]") {
  AccessTracker tracker;
  const AccessId first = tracker.begin(kRegion, {0, 10}, Access::write, kStore, Time{0});
  const AccessId second = tracker.begin(kRegion, {20, 10}, Access::write, kStore, Time{0});
  const AccessId third = tracker.begin(kRegion, {40, 10}, Access::write, kStore, Time{0});
  tracker.end(second);
  CHECK(race_of(tracker, {20, 10}, Access::write, kLoad, Time{5}) == "no error");
  CHECK(race_of(tracker, {0, 10}, Access::write, kLoad, Time{5}) != "no error");
  CHECK(race_of(tracker, {40, 10}, Access::write, kLoad, Time{5}) != "no error");
  tracker.end(third);
  CHECK(race_of(tracker, {40, 10}, Access::write, kLoad, Time{5}) == "no error");
  CHECK(race_of(tracker, {0, 10}, Access::write, kLoad, Time{5}) != "no error");
  tracker.end(first);
  CHECK(race_of(tracker, {0, 10}, Access::write, kLoad, Time{5}) == "no error");
  CHECK_THROWS_AS(tracker.end(second), InternalError);
  CHECK_THROWS_AS(tracker.end(AccessId{}), InternalError);
}

TEST_CASE("an access that raced was not recorded", "[access_tracker]") {
  AccessTracker tracker;
  const AccessId held = tracker.begin(kRegion, {0, 10}, Access::write, kStore, Time{0});
  CHECK(race_of(tracker, {0, 100}, Access::write, kLoad, Time{5}) != "no error");
  tracker.end(held);
  CHECK(race_of(tracker, {50, 10}, Access::write, kStore, Time{6}) == "no error");
}

TEST_CASE("clear() forgets all accesses", "[access_tracker]") {
  AccessTracker tracker;
  tracker.begin(kRegion, {0, 10}, Access::write, kStore, Time{0});
  const AccessId old = tracker.begin(kRegion, {20, 10}, Access::write, kStore, Time{0});
  tracker.clear();
  CHECK(race_of(tracker, {0, 30}, Access::write, kLoad, Time{5}) == "no error");
  CHECK_THROWS_AS(tracker.end(old), InternalError);
}

}  // namespace kernbench::sim::access_tracker_test
