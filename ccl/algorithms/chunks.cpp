#include "ccl/algorithms/chunks.h"

#include <algorithm>

#include "sim_engine/base/ceil_divide.h"

namespace kernbench::ccl {

std::vector<Piece> cut(std::int64_t begin, std::int64_t total, int count) {
  std::vector<Piece> parts(static_cast<std::size_t>(count));
  std::int64_t next = begin;
  for (int i = 0; i < count; ++i) {
    Piece& part = parts[static_cast<std::size_t>(i)];
    part.begin = next;
    part.count = total / count + (i < total % count ? 1 : 0);
    next += part.count;
  }
  return parts;
}

std::vector<Chunk> cut_in_chunks(std::int64_t begin, std::int64_t total, int count,
                                 std::int64_t slot_elements) {
  std::vector<Chunk> chunks;
  for (const Piece& chunk : cut(begin, total, count)) {
    const std::int64_t pieces = sim::ceil_divide(chunk.count, slot_elements);
    chunks.push_back(pieces == 0 ? Chunk{}
                                 : cut(chunk.begin, chunk.count, static_cast<int>(pieces)));
  }
  return chunks;
}

std::int64_t segment_elements(const KernelArgs& args, int chunk_count) {
  return std::max<std::int64_t>(
      std::min(args.slot_elements * args.slots * chunk_count, args.scratch_elements), 1);
}

void send(tl::Context& tl, tl::Port port, const Piece& piece) {
  tl.send(port, *piece.value);
}

void receive(tl::Context& tl, tl::Port port, Piece& piece) {
  piece.value = tl.recv(port, piece.shape(), piece.value->dtype());
}

void receive_and_add(tl::Context& tl, tl::Port port, Piece& piece) {
  piece.value = *piece.value + tl.recv(port, piece.shape(), piece.value->dtype());
}

}  // namespace kernbench::ccl
