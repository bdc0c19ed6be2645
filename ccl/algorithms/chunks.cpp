#include "ccl/algorithms/chunks.h"

namespace kernbench::ccl {

std::vector<Chunk> cut(std::int64_t begin, std::int64_t total, int count) {
  std::vector<Chunk> chunks(static_cast<std::size_t>(count));
  std::int64_t next = begin;
  for (int i = 0; i < count; ++i) {
    Chunk& chunk = chunks[static_cast<std::size_t>(i)];
    chunk.begin = next;
    chunk.count = total / count + (i < total % count ? 1 : 0);
    next += chunk.count;
  }
  return chunks;
}

}  // namespace kernbench::ccl
