// Maps the positions of a region to the values whose elements lie there.
//
// Intervals lie in leaves of a few, so that to write into a region of n intervals costs O(log n)
// and moves no more than a leaf.

#pragma once

#include <cstdint>
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
  // An interval's place, until the map changes.
  struct Place {
    std::size_t leaf = 0;
    std::size_t item = 0;
  };

  // All `size` elements are those of a value.
  void fill(std::int64_t size, const Value& value);
  void clear() { leaves_.clear(); }

  // The interval that `position` lies in.  REQUIRES: fill() was called; 0 <= position < size
  Place find(std::int64_t position) const;
  const Interval& at(const Place& place) const { return leaves_[place.leaf].items[place.item]; }
  Place after(const Place& place) const {
    const bool is_last = place.item + 1 == leaves_[place.leaf].items.size();
    return is_last ? Place{place.leaf + 1, 0} : Place{place.leaf, place.item + 1};
  }
  std::int64_t end_of(const Place& place) const {
    const Place next = after(place);
    return next.leaf < leaves_.size() ? at(next).begin : size_;
  }

  // Calls visit(const Value&) for the value of each interval.
  template <class Visit>
  void for_each_value(const Visit& visit) const {
    for (const Leaf& leaf : leaves_) {
      for (const Interval& interval : leaf.items) visit(interval.value);
    }
  }

  // Elements [begin, end) are those of `value` from `offset` on.  REQUIRES: begin < end
  void put(std::int64_t begin, std::int64_t end, std::int64_t offset, const Value& value);

 private:
  struct Leaf {
    std::int64_t begin = 0;  // of the first
    std::vector<Interval> items;
  };

  bool lies_in(std::int64_t position, const Place& place) const;
  Place split(std::int64_t position);
  void erase_after(const Place& place, std::int64_t end);

  std::int64_t size_ = 0;
  std::vector<Leaf> leaves_;  // sorted, none is empty
  mutable Place found_;       // by the last find(); the map may have changed since
};

}  // namespace kernbench::sim
