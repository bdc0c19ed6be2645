#include "sim_engine/values/interval_map.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <vector>

namespace kernbench::sim::interval_map_test {

namespace {

// The element at a position: element `offset` of a value, which is known by its number of elements.
struct Element {
  std::int64_t value = 0;
  std::int64_t offset = 0;

  friend bool operator==(const Element&, const Element&) = default;
};

std::vector<Element> elements_of(const IntervalMap& map, std::int64_t size) {
  std::vector<Element> elements;
  IntervalMap::Place place = map.find(0);
  for (std::int64_t position = 0; position < size; place = map.after(place)) {
    const IntervalMap::Interval& interval = map.at(place);
    REQUIRE(interval.begin == position);
    for (; position < map.end_of(place); ++position) {
      elements.push_back(
          {interval.value.element_count(), interval.offset + position - interval.begin});
    }
  }
  return elements;
}

}  // namespace

TEST_CASE("an interval map holds what was put last", "[interval_map]") {
  const std::int64_t size = GENERATE(1, 40, 3000);
  const std::int64_t longest = GENERATE(1, 7, 900);
  std::minstd_rand random(static_cast<unsigned>(size + longest));
  const auto draw = [&](std::int64_t end) { return static_cast<std::int64_t>(random()) % end; };
  IntervalMap map;
  map.fill(size, {DType::f32, 1});
  std::vector<Element> expected;
  for (std::int64_t i = 0; i < size; ++i) expected.push_back({1, i});
  for (std::int64_t number = 2; number < 3000; ++number) {
    const std::int64_t begin = draw(size);
    const std::int64_t end = begin + 1 + draw(std::min(longest, size - begin));
    const std::int64_t offset = draw(100);
    map.put(begin, end, offset, {DType::f32, number});
    for (std::int64_t i = begin; i < end; ++i) {
      expected[static_cast<std::size_t>(i)] = {number, offset + i - begin};
    }
    const std::int64_t asked = draw(size);  // and its neighbours, as pieces in order are
    for (std::int64_t at = std::max<std::int64_t>(asked - 1, 0); at < std::min(asked + 2, size);
         ++at) {
      const IntervalMap::Place found = map.find(at);
      REQUIRE(map.at(found).begin <= at);
      REQUIRE(at < map.end_of(found));
    }
    if (number % 500 == 0) REQUIRE(elements_of(map, size) == expected);
  }
}

}  // namespace kernbench::sim::interval_map_test
