#include "sim_engine/values/access_tracker.h"

#include <array>
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

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

// Rows 0 to 3 of 10 elements in region 3 from element 100 on, and rows 4 and 5 in region 5.
std::shared_ptr<const MatrixRegions> matrix_of_two() {
  return std::make_shared<const MatrixRegions>(
      std::vector<MatrixRegions::Part>{{kRegion, 100, 4, 10}, {{5, 0}, 0, 2, 10}});
}

// Random accesses of four PEs, begun and ended in two trackers: one notes reads of a matrix of
// three regions as one access, the other one as an access for each of these.
class TwoTrackers {
 public:
  explicit TwoTrackers(std::uint32_t seed) : random_(seed) {}

  void step() {
    const int pe = draw(4);
    const AccessOrigin origin{"tl.composite", {0, 0, pe}, static_cast<std::uint64_t>(draw(2))};
    now_ += Time{1};
    if (!under_way_.empty() && draw(3) == 0) return end(static_cast<std::size_t>(draw(1000)));
    if (draw(2) == 0) return read({draw(6), 1 + draw(4)}, origin);
    const std::uint32_t region = 3 + static_cast<std::uint32_t>(draw(3));
    const ElementRange elements{draw(40), 1 + draw(12)};
    const Access access = draw(3) == 0 ? Access::read : Access::write;
    UnderWay added;
    std::array<std::string, 2> errors;
    for (std::size_t i = 0; i < 2; ++i) {
      errors[i] = test::error_of<DeviceError>([&] {
        added.single[i] = trackers_[i].begin({region, 0}, elements, access, origin, now_);
      });
    }
    settle(errors, added);
  }
  int races() const { return races_; }

 private:
  struct UnderWay {
    std::array<AccessId, 2> single = {};
    MatrixReadId read = {};
    std::vector<AccessId> reads = {};  // of the other tracker, if it is a read of the matrix
  };

  std::int64_t draw_wide(int count) { return static_cast<std::int64_t>(random_() % count); }
  int draw(int count) { return static_cast<int>(draw_wide(count)); }

  void read(const MatrixRegions::Columns& columns, const AccessOrigin& origin) {
    UnderWay added;
    std::array<std::string, 2> errors;
    errors[0] = test::error_of<DeviceError>(
        [&] { added.read = trackers_[0].begin_read(matrix_, columns, origin, now_); });
    errors[1] = test::error_of<DeviceError>([&] {
      for (const MatrixRegions::Part& part : matrix_->parts()) {
        added.reads.push_back(trackers_[1].begin(
            part.region, MatrixRegions::elements(part, columns), Access::read, origin, now_));
      }
    });
    if (errors[1] != "no error") {
      for (const AccessId id : added.reads) trackers_[1].end(id);
    }
    settle(errors, added);
  }

  void settle(const std::array<std::string, 2>& errors, const UnderWay& added) {
    CHECK(errors[0] == errors[1]);
    if (errors[1] == "no error") {
      under_way_.push_back(added);
    } else {
      ++races_;
    }
  }

  void end(std::size_t at) {
    at %= under_way_.size();
    const UnderWay ended = under_way_[at];
    under_way_.erase(under_way_.begin() + static_cast<std::ptrdiff_t>(at));
    if (ended.reads.empty()) {
      for (std::size_t i = 0; i < 2; ++i) trackers_[i].end(ended.single[i]);
      return;
    }
    trackers_[0].end(ended.read);
    for (const AccessId id : ended.reads) trackers_[1].end(id);
  }

  std::mt19937 random_;
  std::array<AccessTracker, 2> trackers_;
  const std::shared_ptr<const MatrixRegions> matrix_ = std::make_shared<const MatrixRegions>(
      std::vector<MatrixRegions::Part>{{{3, 0}, 0, 3, 12}, {{4, 0}, 5, 2, 12}, {{5, 0}, 0, 1, 12}});
  std::vector<UnderWay> under_way_;
  Time now_{0};
  int races_ = 0;
};

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

TEST_CASE("a read of a matrix races with writes to its columns in any region", "[access_tracker]") {
  AccessTracker tracker;
  const MatrixReadId read =
      tracker.begin_read(matrix_of_two(), {2, 3}, {"tl.composite", {0, 0, 1}}, Time{7'000});
  CHECK_THAT(race_of(tracker, {112, 1}, Access::write, kStore, Time{8'000}),
             Says("KB-M030", "elements 112..112 of region 3",
                  "tl.composite by sip0.cube0.pe1 reads elements 102..104 and 3 more rows, 10 "
                  "apart since 7 ns"));
  CHECK_THAT(race_of(tracker, {10, 10}, Access::write, kStore, Time{8'000}, RegionId{5, 0}),
             Says("KB-M030", "elements 12..14 of region 5"));
  CHECK(race_of(tracker, {112, 1}, Access::read, kStore, Time{8'000}) == "no error");
  CHECK(race_of(tracker, {115, 7}, Access::write, kStore, Time{8'000}) == "no error");
  CHECK(race_of(tracker, {12, 1}, Access::write, kStore, Time{8'000}, RegionId{5, 1}) ==
        "no error");
  tracker.end(read);
  CHECK(race_of(tracker, {112, 1}, Access::write, kStore, Time{9'000}) == "no error");
  CHECK_THROWS_AS(tracker.end(read), InternalError);
  const std::string race = test::error_of<DeviceError>([&] {
    tracker.begin_read(matrix_of_two(), {0, 10}, kLoad, Time{9'500});
  });
  CHECK_THAT(race, Says("KB-M030", "elements 112..112 of region 3",
                        "writes elements 112..112 since 9 ns"));
}

TEST_CASE("a matrix of which all reads raced is forgotten", "[access_tracker]") {
  AccessTracker tracker;
  const std::shared_ptr<const MatrixRegions> matrix = matrix_of_two();
  const AccessId held = tracker.begin(kRegion, {112, 1}, Access::write, kStore, Time{0});
  const auto read = [&](std::int64_t first) {
    return tracker.begin_read(matrix, {first, 1}, kLoad, Time{1});
  };
  CHECK_THROWS_AS(read(2), DeviceError);
  CHECK(matrix.use_count() == 1);
  const MatrixReadId other = read(3);
  CHECK_THROWS_AS(read(2), DeviceError);
  CHECK(matrix.use_count() == 2);  // for the other column's reader
  tracker.end(other);
  CHECK(matrix.use_count() == 1);
  tracker.end(held);
  CHECK_NOTHROW(tracker.end(read(2)));
}

TEST_CASE("reads of a matrix race as reads of its regions would", "[access_tracker]") {
  TwoTrackers trackers(GENERATE(range(1U, 9U)));
  for (int i = 0; i < 400; ++i) trackers.step();
  CHECK(trackers.races() > 10);
}

TEST_CASE("clear() forgets all accesses", "[access_tracker]") {
  AccessTracker tracker;
  tracker.begin(kRegion, {0, 10}, Access::write, kStore, Time{0});
  const AccessId old = tracker.begin(kRegion, {20, 10}, Access::write, kStore, Time{0});
  const MatrixReadId read = tracker.begin_read(matrix_of_two(), {5, 5}, kStore, Time{0});
  tracker.clear();
  CHECK(race_of(tracker, {0, 300}, Access::write, kLoad, Time{5}) == "no error");
  CHECK_THROWS_AS(tracker.end(read), InternalError);
  CHECK_THROWS_AS(tracker.end(old), InternalError);
}

}  // namespace kernbench::sim::access_tracker_test
