// Some of many, for what need not be asked of all.

#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace kernbench::ccl {

// Returns the numbers below `count` if they are at most `most`, else `most` of them, of which 0 is
// the first.  They are no multiples of a small number, which a pattern of ranks might be.
inline std::vector<int> sample(int count, int most) {
  constexpr std::int64_t kPrime = 7919;
  std::vector<int> some;
  for (int i = 0; i < std::min(count, most); ++i) {
    some.push_back(count <= most ? i : static_cast<int>(i * kPrime % count));
  }
  return some;
}

}  // namespace kernbench::ccl
