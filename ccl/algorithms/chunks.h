// Divides a shard into chunks, each of which travels separately, as one or more messages.

#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ccl/algorithm.h"

namespace kernbench::ccl {

// Elements [begin, begin + count) of a shard, at most as many as fit into a slot, and their value
// once it is in scratch.
struct Piece {
  std::int64_t begin = 0;
  std::int64_t count = 0;
  std::optional<tl::Tensor> value;

  Shape shape() const { return {count}; }
};

// The elements that a rank exchanges at a time.  Chunks without elements have no pieces.
using Chunk = std::vector<Piece>;

// Splits elements [begin, begin + total) into `count` parts whose sizes differ by at most one.
std::vector<Piece> cut(std::int64_t begin, std::int64_t total, int count);

// Splits them into chunks of pieces of at most `slot_elements`.
std::vector<Chunk> cut_in_chunks(std::int64_t begin, std::int64_t total, int count,
                                 std::int64_t slot_elements);

// Returns how many elements `chunk_count` chunks may have together: the pieces of each must fit
// into a queue, and all of them into scratch.  At least 1.
std::int64_t segment_elements(const KernelArgs& args, int chunk_count);

void send(tl::Context& tl, tl::Port port, const Piece& piece);
void receive(tl::Context& tl, tl::Port port, Piece& piece);
void receive_and_add(tl::Context& tl, tl::Port port, Piece& piece);

}  // namespace kernbench::ccl
