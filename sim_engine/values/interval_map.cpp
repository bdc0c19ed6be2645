#include "sim_engine/values/interval_map.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace kernbench::sim {

namespace {

constexpr std::size_t kMostItems = 32;  // of a leaf

template <class Items>
auto step(Items& items, std::size_t count) {
  return items.begin() + static_cast<std::ptrdiff_t>(count);
}

}  // namespace

void IntervalMap::fill(std::int64_t size, const Value& value) {
  size_ = size;
  leaves_.clear();
  leaves_[0].push_back({0, 0, value});
  found_ = {leaves_.begin(), 0};
}

bool IntervalMap::lies_in(std::int64_t position, const Place& place) const {
  if (place.item >= place.leaf->second.size()) return false;
  return at(place).begin <= position && position < end_of(place);
}

// Pieces are mostly used one after the other, upwards or downwards.
IntervalMap::Place IntervalMap::find(std::int64_t position) const {
  const auto [leaf, item] = found_;
  for (const Place& near : {found_, Place{leaf, item + 1}, Place{leaf, item - 1}}) {
    if (lies_in(position, near)) return found_ = near;
  }
  found_.leaf = std::prev(leaves_.upper_bound(position));
  const std::vector<Interval>& items = found_.leaf->second;
  const auto next = std::ranges::upper_bound(items, position, {}, &Interval::begin);
  found_.item = static_cast<std::size_t>(next - items.begin()) - 1;
  return found_;
}

std::vector<IntervalMap::Interval>& IntervalMap::items_of(const Place& place) {
  return leaves_.erase(place.leaf, place.leaf)->second;  // erases none: an iterator that may write
}

// The interval that begins at `position`, which splits one if need be.
IntervalMap::Place IntervalMap::split(std::int64_t position) {
  Place place = find(position);
  const Interval whole = at(place);
  if (whole.begin == position) return place;
  std::vector<Interval>& items = items_of(place);
  ++place.item;
  items.insert(step(items, place.item),
               {position, whole.offset + (position - whole.begin), whole.value});
  if (items.size() <= kMostItems) return place;
  constexpr std::size_t kHalf = kMostItems / 2;
  const auto upper = leaves_.emplace_hint(
      std::next(place.leaf), items[kHalf].begin,
      std::vector(std::move_iterator(step(items, kHalf)), std::move_iterator(items.end())));
  items.erase(step(items, kHalf), items.end());
  return place.item < kHalf ? place : Place{upper, place.item - kHalf};
}

// Erases the intervals behind one that begin before `end`.
void IntervalMap::erase_after(const Place& place, std::int64_t end) {
  std::vector<Interval>& items = items_of(place);
  const auto behind = step(items, place.item + 1);
  items.erase(behind, std::ranges::lower_bound(behind, items.end(), end, {}, &Interval::begin));
  const auto first = std::next(place.leaf);
  if (first == leaves_.end() || first->first >= end) return;  // mostly
  const auto stop = leaves_.lower_bound(end);
  std::vector<Interval>& last = std::prev(stop)->second;
  const auto kept = std::ranges::lower_bound(last, end, {}, &Interval::begin);
  std::vector<Interval> rest{std::move_iterator{kept}, std::move_iterator{last.end()}};
  leaves_.erase(first, stop);
  if (!rest.empty()) leaves_.emplace_hint(stop, rest.front().begin, std::move(rest));
}

void IntervalMap::put(std::int64_t begin, std::int64_t end, std::int64_t offset,
                      const Value& value) {
  if (end < size_) split(end);
  found_ = split(begin);
  erase_after(found_, end);
  items_of(found_)[found_.item] = {begin, offset, value};
}

}  // namespace kernbench::sim
