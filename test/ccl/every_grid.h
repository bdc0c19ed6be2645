#pragma once

#include <catch2/catch.hpp>

#include "sim_engine/topology/location.h"

namespace kernbench::test {

// The largest width and height.
inline constexpr int kLargest = 7;

// Checks all grids up to the largest, with and without wrap-around.
template <class Check>
void for_each_grid(Check check) {
  for (const bool wraps : {false, true}) {
    for (int w = 1; w <= kLargest; ++w) {
      for (int h = 1; h <= kLargest; ++h) {
        CAPTURE(w, h, wraps);
        check(sim::Grid{w, h, wraps});
      }
    }
  }
}

}  // namespace kernbench::test
