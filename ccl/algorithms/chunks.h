// A shard cut in chunks, each of which travels on its own, as one message or a few.

#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ccl/algorithm.h"

namespace kernbench::ccl {

// Elements [begin, begin + count) of a shard, at most what fits into a slot, and their value once
// it is in scratch.
struct Piece {
  std::int64_t begin = 0;
  std::int64_t count = 0;
  std::optional<tl::Tensor> value;

  Shape shape() const { return {count}; }
};

// What a rank exchanges at a time.  Chunks of no elements have no pieces.
using Chunk = std::vector<Piece>;

// Cuts elements [begin, begin + total) into `count` parts whose sizes differ by one at most.
std::vector<Piece> cut(std::int64_t begin, std::int64_t total, int count);

// The same into chunks of pieces of at most `slot_elements`.
std::vector<Chunk> cut_in_chunks(std::int64_t begin, std::int64_t total, int count,
                                 std::int64_t slot_elements);

// Elements that `chunk_count` chunks may have together: each so many that its pieces fit into a
// queue, and all so many that they fit into scratch.  At least 1.
std::int64_t segment_elements(const KernelArgs& args, int chunk_count);

void send(tl::Context& tl, tl::Port port, const Piece& piece);
void receive(tl::Context& tl, tl::Port port, Piece& piece);
void receive_and_add(tl::Context& tl, tl::Port port, Piece& piece);

}  // namespace kernbench::ccl
