// Maps the positions of a region to the values whose elements lie there.
//
// Intervals lie in leaves of a few, and leaves in a tree, so that to write into a region of n
// intervals costs O(log n) and moves no more than a leaf.

#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <vector>

#include "sim_engine/values/value.h"

namespace kernbench::sim {

class IntervalMap {
 public:
  // Elements from `begin` to the next interval's begin, or the region's end, are those of `value`
  // from `offset` on.
  struct Interval {
    std::int64_t begin = 0;
    std::int64_t offset = 0;
    Value value;
  };
  // By the begin of their first interval; none is empty.
  using Leaves = std::map<std::int64_t, std::vector<Interval>>;
  // An interval's place, until the map changes.
  struct Place {
    Leaves::const_iterator leaf;
    std::size_t item = 0;
  };

  // All `size` elements are those of a value.
  void fill(std::int64_t size, const Value& value);
  void clear() { leaves_.clear(); }

  // The interval that `position` lies in.  REQUIRES: fill() was called; 0 <= position < size
  Place find(std::int64_t position) const;
  const Interval& at(const Place& place) const { return place.leaf->second[place.item]; }
  Place after(const Place& place) const {
    const bool is_last = place.item + 1 == place.leaf->second.size();
    return is_last ? Place{std::next(place.leaf), 0} : Place{place.leaf, place.item + 1};
  }
  std::int64_t end_of(const Place& place) const {
    const Place next = after(place);
    return next.leaf != leaves_.end() ? at(next).begin : size_;
  }

  // Calls visit(const Value&) for the value of each interval.
  template <class Visit>
  void for_each_value(const Visit& visit) const {
    for (const auto& [begin, items] : leaves_) {
      for (const Interval& interval : items) visit(interval.value);
    }
  }

  // Elements [begin, end) are those of `value` from `offset` on.  REQUIRES: begin < end
  void put(std::int64_t begin, std::int64_t end, std::int64_t offset, const Value& value);

 private:
  bool lies_in(std::int64_t position, const Place& place) const;
  std::vector<Interval>& items_of(const Place& place);
  Place split(std::int64_t position);
  void erase_after(const Place& place, std::int64_t end);

  std::int64_t size_ = 0;
  Leaves leaves_;
  mutable Place found_;  // by the last find(), or of the last put(); its item may not be there
};

}  // namespace kernbench::sim
