#include "ccl/algorithms/tree_allreduce.h"

#include <ranges>

#include "ccl/algorithms/exchange.h"

namespace kernbench::ccl {

namespace {

void reduce_up(tl::Context& tl, const TreePlace& tree, Piece& piece) {
  for (const tl::Port child : tree.children) receive_and_add(tl, child, piece);
  if (tree.parent) send(tl, *tree.parent, piece);
}

// Serves the child with the deepest subtree first; its value was added last.
void broadcast_down(tl::Context& tl, const TreePlace& tree, Piece& piece) {
  if (tree.parent) receive(tl, *tree.parent, piece);
  for (const tl::Port child : tree.children | std::views::reverse) send(tl, child, piece);
}

}  // namespace

// The root sends each sum down as soon as it is complete.  The other nodes pass sums down after
// all their summands have gone up: with as many pieces as a queue has slots, the first sum arrives
// at about that time.
void tree_allreduce(tl::Context& tl, const KernelArgs& args) {
  const TreePlace& tree = args.tree();
  all_reduce_in_segments(tl, args, 1, [&](std::span<Chunk> chunks) {
    Chunk& pieces = chunks[0];
    for (Piece& piece : pieces) {
      reduce_up(tl, tree, piece);
      if (!tree.parent) broadcast_down(tl, tree, piece);
    }
    for (Piece& piece : pieces) {
      if (tree.parent) broadcast_down(tl, tree, piece);
    }
  });
}

}  // namespace kernbench::ccl
