#include "ccl/algorithms/intercube_allreduce.h"

#include <algorithm>

#include "ccl/algorithms/chunks.h"
#include "ccl/algorithms/cube_tree.h"
#include "ccl/algorithms/sip_exchange.h"

namespace kernbench::ccl {

namespace {

// 1.  What this PE, with its siblings, brings.
void load_summands(tl::Context& tl, const KernelArgs& args, Chunk& chunk) {
  chunk.value = tl.load(args.tensor + chunk.begin, chunk.shape(), args.dtype);
  if (args.placement.pe != Shard::partial) return;
  for (const tl::Pointer& sibling : args.siblings) {
    chunk.value = *chunk.value + tl.load(sibling + chunk.begin, chunk.shape(), args.dtype);
  }
}

// 2.
void reduce_over_cubes(tl::Context& tl, const CubeTreeNode& node, Chunk& chunk) {
  for (const tl::Direction child : node.children) {
    chunk.value = *chunk.value + tl.recv(child, chunk.shape(), chunk.value->dtype());
  }
  if (node.parent) tl.send(*node.parent, *chunk.value);
}

// 4.
void broadcast_over_cubes(tl::Context& tl, const CubeTreeNode& node, Chunk& chunk) {
  if (node.parent) chunk.value = tl.recv(*node.parent, chunk.shape(), chunk.value->dtype());
  for (const tl::Direction child : node.children) tl.send(child, *chunk.value);
}

// 5.
void store_sums(tl::Context& tl, const KernelArgs& args, const Chunk& chunk) {
  tl.store(args.tensor + chunk.begin, *chunk.value);
  for (const tl::Pointer& sibling : args.siblings) tl.store(sibling + chunk.begin, *chunk.value);
}

}  // namespace

void intercube_allreduce(tl::Context& tl, const KernelArgs& args) {
  const bool cubes_share = !is_sharded(args.placement.cube);
  const CubeTreeNode node = cubes_share
                                ? cube_tree_node(args.cubes, args.cube_count, tl.location().cube)
                                : CubeTreeNode{};
  const int chunk_count = sip_exchange_chunk_count(args.sips);
  const std::int64_t segment =
      std::min(args.slot_elements * chunk_count, std::max<std::int64_t>(args.scratch_elements, 1));

  for (std::int64_t begin = 0; begin < args.n_elem; begin += segment) {
    std::vector<Chunk> chunks = cut(begin, std::min(segment, args.n_elem - begin), chunk_count);
    for (Chunk& chunk : chunks) {
      if (chunk.empty()) continue;
      load_summands(tl, args, chunk);
      if (args.placement.cube == Shard::partial) reduce_over_cubes(tl, node, chunk);
    }
    if (!node.parent) sip_exchange(tl, args, chunks);
    for (Chunk& chunk : chunks) {
      if (chunk.empty()) continue;
      broadcast_over_cubes(tl, node, chunk);
      store_sums(tl, args, chunk);
    }
  }
}

}  // namespace kernbench::ccl
