#pragma once

#include "sim_engine/values/transcendental.h"

namespace kernbench::random {

struct UniformPair {
  float u = 0;
  float v = 0;
};

// Draws a normal number with mean 0 and variance 1 from pairs of uniform ones in [0, 1), which
// `draw_pair` gives (Marsaglia's polar method; the same bits on every machine).
template <class DrawPair>
float polar_normal(DrawPair draw_pair) {
  float u = 0;
  float square = 0;
  while (square == 0 || square >= 1) {
    const UniformPair drawn = draw_pair();
    u = 2 * drawn.u - 1;
    const float v = 2 * drawn.v - 1;
    square = u * u + v * v;
  }
  float factor = square;
  sim::log_elements(&factor, &factor, 1);
  factor = -2 * factor / square;
  sim::sqrt_elements(&factor, &factor, 1);
  return u * factor;
}

}  // namespace kernbench::random
