// The steps around an all-reduce over SIPs, and its exchange along one dimension.

#pragma once

#include <functional>
#include <span>

#include "ccl/algorithms/chunks.h"

namespace kernbench::ccl {

// Turns `chunks` of a participant's summands into the sums over all participants.
using Exchange = std::function<void(std::span<Chunk> chunks)>;

// Turns the summands in memory into the sums, in segments of `chunk_count` chunks:
//
//   1. PEs:    a leader adds its siblings' summands, straight from their HBM         (pe partial)
//   2. cubes:  reduce along the tree to its root, from all sides at once             (cube partial)
//   3. the exchange, on the root cube, or on every cube that has its own shard
//   4. cubes:  broadcast back along the tree                      (cube partial, replicate)
//   5. PEs:    the leader writes its siblings' copies             (pe partial, replicate)
//
// Every PE whose shard differs from the others' is a separate lane throughout.
void all_reduce_in_segments(tl::Context& tl, const KernelArgs& args, int chunk_count,
                            const Exchange& exchange);

// One dimension as one participant sees it: participants in a row, numbered by position.  They
// exchange a chunk for each position and colour (direction of travel).  After the reduce-scatter
// every position holds the sums of its own chunks.
//
// A ring passes each colour's chunks round in that colour's direction; a line passes them in both
// directions at once.  Pieces of a chunk follow each other: one is passed on while the next is
// under way.
struct Dimension {
  int size = 1;
  int position = 0;
  bool wraps = false;
  tl::Port forward{};   // to position + 1
  tl::Port backward{};  // to position - 1

  // `chunks` has those of each colour, by position; a line has one colour.
  void reduce_scatter(tl::Context& tl, std::span<const std::span<Chunk>> chunks) const;
  void all_gather(tl::Context& tl, std::span<const std::span<Chunk>> chunks) const;
};

}  // namespace kernbench::ccl
