// Sums as trees of pairs.

#pragma once

#include <cstdint>

namespace kernbench::sim {

// Adds up of(first), ..., of(first + count - 1): neighbours in pairs, these in pairs, and so on.
// The first half of an odd number is the smaller one.  Summands are made when they are added, from
// the first to the last.
// REQUIRES: count > 0
template <class Of, class Add>
auto add_in_pairs(std::int64_t first, std::int64_t count, const Of& of, const Add& add)
    -> decltype(of(first)) {
  if (count == 1) return of(first);
  const std::int64_t half = count / 2;
  auto left = add_in_pairs(first, half, of, add);
  auto right = add_in_pairs(first + half, count - half, of, add);
  return add(left, right);
}

}  // namespace kernbench::sim
