// Numbers that tests draw.

#pragma once

#include <cstdint>
#include <random>

#include "sim_engine/base/units.h"

namespace kernbench::test {

// Draws integers, the same ones for the same seed.
class Pick {
 public:
  explicit Pick(unsigned seed) : random_(seed) {}
  int operator()(int from, int to) {
    return from + static_cast<int>(random_() % static_cast<unsigned>(to - from + 1));
  }
  bool coin() { return (*this)(0, 1) == 1; }
  Bandwidth gigabytes(int from, int to) {
    return {(*this)(from, to) * std::int64_t{1'000'000'000}};
  }

 private:
  std::mt19937 random_;
};

}  // namespace kernbench::test
