// When units were busy, by stretches of time that become longer.

#include "sim_engine/components/use_over_time.h"

#include <catch2/catch.hpp>
#include <numeric>

namespace kernbench::sim::use_over_time_test {

TEST_CASE("a unit's time lies in the stretches in which it was busy", "[fabric][profile]") {
  UseOverTime use(2);
  const Time stretch = use.stretch();
  use.add(1, stretch / 2, 2 * stretch);
  CHECK(use.of(0).empty());
  REQUIRE(use.of(1).size() == UseOverTime::kStretches);
  CHECK(use.of(1)[0] == stretch / 2);
  CHECK(use.of(1)[1] == stretch);
  CHECK(use.of(1)[2] == stretch / 2);
  CHECK(use.of(1)[3] == Time{0});
}

TEST_CASE("where a run goes on beyond the stretches, two become one", "[fabric][profile]") {
  UseOverTime use(1);
  const Time stretch = use.stretch();
  use.add(0, Time{0}, 3 * stretch);
  use.add(0, UseOverTime::kStretches * stretch, Time{10});
  CHECK(use.stretch() == 2 * stretch);
  CHECK(use.of(0)[0] == 2 * stretch);
  CHECK(use.of(0)[1] == stretch);
  CHECK(use.of(0)[UseOverTime::kStretches / 2] == Time{10});
  const Time sum = std::accumulate(use.of(0).begin(), use.of(0).end(), Time{0});
  CHECK(sum == 3 * stretch + Time{10});
  use.add(0, UseOverTime::kStretches * 64 * stretch, Time{1});
  CHECK(use.of(0)[0] == 3 * stretch);
}

}  // namespace kernbench::sim::use_over_time_test
