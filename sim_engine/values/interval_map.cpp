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
  leaves_.push_back({0, {{0, 0, value}}});
}

bool IntervalMap::lies_in(std::int64_t position, const Place& place) const {
  if (place.leaf >= leaves_.size() || place.item >= leaves_[place.leaf].items.size()) return false;
  return at(place).begin <= position && position < end_of(place);
}

// Pieces are mostly used one after the other, upwards or downwards.
IntervalMap::Place IntervalMap::find(std::int64_t position) const {
  const auto [leaf, item] = found_;
  for (const Place& near : {found_, Place{leaf, item + 1}, Place{leaf, item - 1}}) {
    if (lies_in(position, near)) return found_ = near;
  }
  const auto behind = std::ranges::upper_bound(leaves_, position, {}, &Leaf::begin);
  found_.leaf = static_cast<std::size_t>(behind - leaves_.begin()) - 1;
  const std::vector<Interval>& items = leaves_[found_.leaf].items;
  const auto next = std::ranges::upper_bound(items, position, {}, &Interval::begin);
  found_.item = static_cast<std::size_t>(next - items.begin()) - 1;
  return found_;
}

// The interval that begins at `position`, which splits one if need be.
IntervalMap::Place IntervalMap::split(std::int64_t position) {
  Place place = find(position);
  const Interval whole = at(place);
  if (whole.begin == position) return place;
  std::vector<Interval>& items = leaves_[place.leaf].items;
  ++place.item;
  items.insert(step(items, place.item),
               {position, whole.offset + (position - whole.begin), whole.value});
  if (items.size() <= kMostItems) return place;
  constexpr std::size_t kHalf = kMostItems / 2;
  Leaf upper{items[kHalf].begin,
             {std::move_iterator(step(items, kHalf)), std::move_iterator(items.end())}};
  items.erase(step(items, kHalf), items.end());
  leaves_.insert(step(leaves_, place.leaf + 1), std::move(upper));
  return place.item < kHalf ? place : Place{place.leaf + 1, place.item - kHalf};
}

// Erases the intervals behind one that begin before `end`.
void IntervalMap::erase_after(const Place& place, std::int64_t end) {
  const auto erase = [end](std::vector<Interval>& items, std::size_t from) {
    const auto first = step(items, from);
    if (first == items.end() || first->begin >= end) return;  // mostly
    const auto last = std::ranges::lower_bound(first, items.end(), end, {}, &Interval::begin);
    items.erase(first, last);
  };
  erase(leaves_[place.leaf].items, place.item + 1);
  const auto first = step(leaves_, place.leaf + 1);
  auto last = first;
  while (last != leaves_.end() && last->begin < end && last->items.back().begin < end) ++last;
  if (last != leaves_.end() && last->begin < end) {
    erase(last->items, 0);
    last->begin = last->items.front().begin;
  }
  leaves_.erase(first, last);
}

void IntervalMap::put(std::int64_t begin, std::int64_t end, std::int64_t offset,
                      const Value& value) {
  if (end < size_) split(end);
  const Place place = split(begin);
  erase_after(place, end);
  leaves_[place.leaf].items[place.item] = {begin, offset, value};
}

}  // namespace kernbench::sim
