// Numbers from a seed, the same on every host.

#pragma once

#include <cstddef>
#include <cstdint>

namespace kernbench::fuzz {

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  // SplitMix64.
  std::uint64_t next() {
    state_ += 0x9e3779b97f4a7c15;
    std::uint64_t z = state_;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
  }

  // From 0 to limit - 1; 0 if the limit is 0.
  std::size_t below(std::size_t limit) { return limit == 0 ? 0 : next() % limit; }
  bool one_in(std::size_t n) { return below(n) == 0; }
  // Most results are small, and some are near the limit.
  std::size_t small_below(std::size_t limit) { return below(below(below(limit) + 1) + 1); }

  template <class List>
  const auto& pick(const List& list) {
    return list[below(list.size())];
  }

 private:
  std::uint64_t state_;
};

}  // namespace kernbench::fuzz
