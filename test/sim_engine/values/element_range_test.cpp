#include "sim_engine/values/element_range.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <set>
#include <vector>

namespace kernbench::sim::element_range_test {

namespace {

std::set<std::int64_t> elements_of(const ElementRange& range) {
  std::set<std::int64_t> elements;
  for (std::int64_t row = 0; row < range.rows; ++row) {
    for (std::int64_t column = 0; column < range.columns; ++column) {
      elements.insert(range.begin + row * range.pitch + column);
    }
  }
  return elements;
}

// All ranges of up to `rows` rows within a few elements.
std::vector<ElementRange> small_ranges(std::int64_t rows) {
  std::vector<ElementRange> ranges;
  for (std::int64_t begin = 0; begin < 4; ++begin) {
    for (std::int64_t columns = 0; columns < 4; ++columns) {
      for (std::int64_t row_count = 0; row_count <= rows; ++row_count) {
        for (std::int64_t pitch = columns; pitch < columns + 3; ++pitch) {
          ranges.push_back({begin, columns, row_count, pitch});
        }
        if (row_count == 1) ranges.push_back({begin, columns});
      }
    }
  }
  return ranges;
}

}  // namespace

TEST_CASE("count and end are those of the elements", "[element_range]") {
  for (const ElementRange& range : small_ranges(3)) {
    const std::set<std::int64_t> elements = elements_of(range);
    REQUIRE(range.count() == static_cast<std::int64_t>(elements.size()));
    REQUIRE(range.end() == (elements.empty() ? range.begin : *elements.rbegin() + 1));
    REQUIRE(elements_of(range.simplified()) == elements);
  }
}

TEST_CASE("ranges overlap if they have an element in common, and the first ones are told",
          "[element_range]") {
  int wrong = 0;
  const std::vector<ElementRange> ranges = small_ranges(3);
  for (const ElementRange& a : ranges) {
    const std::set<std::int64_t> in_a = elements_of(a);
    for (const ElementRange& b : ranges) {
      std::set<std::int64_t> common;
      for (const std::int64_t element : elements_of(b)) {
        if (in_a.contains(element)) common.insert(element);
      }
      wrong += overlap(a, b) != !common.empty();
      if (common.empty()) continue;
      const ElementRange stretch = common_stretch(a, b);
      wrong += stretch.begin != *common.begin();
      for (const std::int64_t element : elements_of(stretch)) wrong += !common.contains(element);
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("a range contains only what it has, and all of it where pitches are equal",
          "[element_range]") {
  int wrong = 0;
  const std::vector<ElementRange> ranges = small_ranges(3);
  for (const ElementRange& a : ranges) {
    if (a.count() == 0) continue;
    const std::set<std::int64_t> in_a = elements_of(a);
    for (const ElementRange& b : ranges) {
      if (b.count() == 0) continue;
      const bool is_part =
          std::ranges::all_of(elements_of(b), [&](std::int64_t i) { return in_a.contains(i); });
      wrong += a.contains(b) && !is_part;
      const bool are_alike = a.is_contiguous() || b.rows == 1 || a.pitch == b.pitch;
      wrong += are_alike && is_part && !a.contains(b);
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("a range says where its rows are", "[element_range]") {
  CHECK(to_string(ElementRange{0, 64}) == "0..63");
  CHECK(to_string(ElementRange{8, 4, 2, 16}) == "8..11 and 1 more row, 16 apart");
  CHECK(to_string(ElementRange{8, 4, 9, 16}) == "8..11 and 8 more rows, 16 apart");
}

}  // namespace kernbench::sim::element_range_test
