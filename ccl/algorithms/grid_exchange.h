// All-reduce on a grid of participants, one dimension after the other: reduce-scatter along x, then
// along y, and all-gather back along y, then x.
//
// Steps (a x b):         2 (a - 1) + 2 (b - 1)
// Bytes over a link:     ring (P - 1)/P n each way; a x b torus, the busiest link: (a - 1)/a n each
//                        way; line 2 (P - 1)/P n
// Best for:              any size; every link of the dimension at hand carries the same load
// Source:                Patarasuk and Yuan, JPDC 69 (2009) for rings; per dimension, e.g. Jain and
//                        Sabharwal, ICS 2010; TIMING.md 3.2 for the closed forms
//
// Each chunk is summed on one participant, in one order, and then copied, so all end with the same
// bits.

#pragma once

#include "ccl/algorithms/exchange.h"

namespace kernbench::ccl {

// A dimension that wraps around is a ring, which is used in both directions at once (two colours);
// any other is a line.
class GridExchange {
 public:
  // `wraps` selects the use of wrap-around links, where the grid has them.
  GridExchange(tl::Context& tl, const GridPlace& place, bool wraps);

  // There is one chunk for each column and colour.
  int chunk_count() const { return colours_ * x_.size; }

  void operator()(std::span<Chunk> chunks) const;

 private:
  void exchange_along_y(std::span<Chunk* const> own) const;

  tl::Context& tl_;
  const int colours_;
  const Dimension x_;
  const Dimension y_;
};

}  // namespace kernbench::ccl
