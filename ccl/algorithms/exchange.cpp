#include "ccl/algorithms/exchange.h"

#include <algorithm>

#include "sim_engine/topology/direction.h"

namespace kernbench::ccl {

namespace {

// Returns a PE's place in the tree over its SIP's cubes; it is alone if each cube has its own
// shard.
TreePlace place_among_cubes(const KernelArgs& args, int cube) {
  TreePlace place;
  if (is_sharded(args.placement.cube) || args.cube_count == 1) return place;
  const GridTreeNode node = grid_tree_node(args.cubes, args.cube_count, cube, args.root);
  if (node.parent) place.parent = sim::to_direction(*node.parent);
  for (const sim::Compass child : node.children) place.children.push_back(sim::to_direction(child));
  return place;
}

// Step 1: loads this PE's summands, and adds those of its siblings.
void load_summands(tl::Context& tl, const KernelArgs& args, Piece& piece) {
  piece.value = tl.load(args.tensor + piece.begin, piece.shape(), args.dtype);
  if (args.placement.pe != Shard::partial) return;
  for (const tl::Pointer& sibling : args.siblings) {
    piece.value = *piece.value + tl.load(sibling + piece.begin, piece.shape(), args.dtype);
  }
}

// Step 2: adds the children's sums and passes the result to the parent.
void reduce_over_cubes(tl::Context& tl, const TreePlace& cubes, Piece& piece) {
  for (const tl::Port child : cubes.children) receive_and_add(tl, child, piece);
  if (cubes.parent) send(tl, *cubes.parent, piece);
}

// Step 4: passes the sums from the parent to the children.
void broadcast_over_cubes(tl::Context& tl, const TreePlace& cubes, Piece& piece) {
  if (cubes.parent) receive(tl, *cubes.parent, piece);
  for (const tl::Port child : cubes.children) send(tl, child, piece);
}

// Step 5: stores the sums in this PE's shard and its siblings'.
void store_sums(tl::Context& tl, const KernelArgs& args, const Piece& piece) {
  tl.store(args.tensor + piece.begin, *piece.value);
  for (const tl::Pointer& sibling : args.siblings) tl.store(sibling + piece.begin, *piece.value);
}

enum class Pass { reduce_scatter, all_gather };

void receive(tl::Context& tl, Pass pass, tl::Port port, Piece& piece) {
  pass == Pass::reduce_scatter ? receive_and_add(tl, port, piece) : receive(tl, port, piece);
}

void send(tl::Context& tl, tl::Port port, const Chunk& chunk) {
  for (const Piece& piece : chunk) send(tl, port, piece);
}

// Runs the ring's steps for every colour: a chunk received in one step is sent in the next.  The
// reduce-scatter begins with the chunk of the position behind, the all-gather with its own.
class RingPass {
 public:
  RingPass(tl::Context& tl, const Dimension& ring, Pass pass,
           std::span<const std::span<Chunk>> chunks)
      : tl_(tl), ring_(ring), pass_(pass), chunks_(chunks) {}

  void run() {
    for (std::size_t colour = 0; colour < chunks_.size(); ++colour) {
      send(tl_, ahead(colour), chunk(colour, 0));
    }
    for (int step = 1; step < ring_.size; ++step) receive_step(step);
  }

 private:
  void receive_step(int step) {
    std::size_t most_pieces = 0;
    for (std::size_t colour = 0; colour < chunks_.size(); ++colour) {
      most_pieces = std::max(most_pieces, chunk(colour, step).size());
    }
    for (std::size_t i = 0; i < most_pieces; ++i) {
      for (std::size_t colour = 0; colour < chunks_.size(); ++colour) {
        Chunk& next = chunk(colour, step);
        if (i >= next.size()) continue;
        receive(tl_, pass_, behind(colour), next[i]);
        if (step < ring_.size - 1) send(tl_, ahead(colour), next[i]);
      }
    }
  }

  // Returns the chunk that is received in a step; for step 0, the one that is sent first.
  Chunk& chunk(std::size_t colour, int step) const {
    const int steps = step + (pass_ == Pass::reduce_scatter ? 1 : 0);
    const int position = colour == 0 ? ring_.position - steps : ring_.position + steps;
    return chunks_[colour]
                  [static_cast<std::size_t>((position % ring_.size + ring_.size) % ring_.size)];
  }
  tl::Port ahead(std::size_t colour) const { return colour == 0 ? ring_.forward : ring_.backward; }
  tl::Port behind(std::size_t colour) const { return colour == 0 ? ring_.backward : ring_.forward; }

  tl::Context& tl_;
  const Dimension& ring_;
  const Pass pass_;
  const std::span<const std::span<Chunk>> chunks_;
};

// Receives a chunk from one side, unless it begins here, and sends it on to the other side, unless
// it ends here.
void pass_on(tl::Context& tl, Pass pass, Chunk& chunk, const tl::Port* from, const tl::Port* to) {
  for (Piece& piece : chunk) {
    if (from != nullptr) receive(tl, pass, *from, piece);
    if (to != nullptr) send(tl, *to, piece);
  }
}

// Partial sums flow from both ends towards each chunk's position, those for the farthest position
// first.  A position handles message m of a flow one slot after its neighbour.
void line_reduce_scatter(tl::Context& tl, const Dimension& line, std::span<Chunk> chunks) {
  const int last = line.size - 1;
  for (int slot = 0; slot <= last; ++slot) {
    if (const int target = last - (slot - line.position); slot >= line.position) {  // forward
      pass_on(tl, Pass::reduce_scatter, chunks[static_cast<std::size_t>(target)],
              line.position > 0 ? &line.backward : nullptr,
              target > line.position ? &line.forward : nullptr);
    }
    if (const int target = slot - (last - line.position); target >= 0) {  // backward
      pass_on(tl, Pass::reduce_scatter, chunks[static_cast<std::size_t>(target)],
              line.position < last ? &line.forward : nullptr,
              target < line.position ? &line.backward : nullptr);
    }
  }
}

// Every position sends its own chunk both ways, and passes on the chunks that it receives: those
// of positions 1, 2, ... away.
void line_all_gather(tl::Context& tl, const Dimension& line, std::span<Chunk> chunks) {
  const int last = line.size - 1;
  for (int away = 0; away <= last; ++away) {
    if (const int lower = line.position - away; lower >= 0) {
      pass_on(tl, Pass::all_gather, chunks[static_cast<std::size_t>(lower)],
              away > 0 ? &line.backward : nullptr, line.position < last ? &line.forward : nullptr);
    }
    if (const int upper = line.position + away; upper <= last) {
      pass_on(tl, Pass::all_gather, chunks[static_cast<std::size_t>(upper)],
              away > 0 ? &line.forward : nullptr, line.position > 0 ? &line.backward : nullptr);
    }
  }
}

}  // namespace

void all_reduce_in_segments(tl::Context& tl, const KernelArgs& args, int chunk_count,
                            const Exchange& exchange) {
  const TreePlace cubes = place_among_cubes(args, tl.location().cube);
  const std::int64_t segment = segment_elements(args, chunk_count);
  for (std::int64_t begin = 0; begin < args.n_elem; begin += segment) {
    std::vector<Chunk> chunks = cut_in_chunks(begin, std::min(segment, args.n_elem - begin),
                                              chunk_count, args.slot_elements);
    for (Chunk& chunk : chunks) {
      for (Piece& piece : chunk) {
        load_summands(tl, args, piece);
        if (args.placement.cube == Shard::partial) reduce_over_cubes(tl, cubes, piece);
      }
    }
    // Step 3: only a root exchanges; every cube with its own shard is one.
    if (!cubes.parent) exchange(chunks);
    for (Chunk& chunk : chunks) {
      for (Piece& piece : chunk) {
        broadcast_over_cubes(tl, cubes, piece);
        store_sums(tl, args, piece);
      }
    }
  }
}

void Dimension::reduce_scatter(tl::Context& tl, std::span<const std::span<Chunk>> chunks) const {
  if (size < 2) return;
  wraps ? RingPass(tl, *this, Pass::reduce_scatter, chunks).run()
        : line_reduce_scatter(tl, *this, chunks[0]);
}

void Dimension::all_gather(tl::Context& tl, std::span<const std::span<Chunk>> chunks) const {
  if (size < 2) return;
  wraps ? RingPass(tl, *this, Pass::all_gather, chunks).run()
        : line_all_gather(tl, *this, chunks[0]);
}

}  // namespace kernbench::ccl
