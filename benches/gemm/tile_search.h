// The fastest tile of a product: each one that comes into question is simulated.

#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "benches/gemm/gemm_run.h"
#include "runtime/torch/runtime_context.h"
#include "sim_engine/topology/topology.h"
#include "sim_engine/values/compute_ops.h"

namespace kernbench::benches::gemm {

struct TiledRun {
  sim::GemmSize tile;
  Time time{0};
};

struct TileSearch {
  TiledRun chosen;             // by sim::choose_tile(), for its estimate
  TiledRun best;               // the chosen one, if no other is faster
  std::int64_t tiles = 0;      // that fit into scratch
  std::int64_t simulated = 0;  // of these; the others' products alone take longer than the best

  // The chosen tile's time over the best one's; 1 if nothing takes time.
  double chosen_over_best() const;
};

// The sizes to try of a side of `size` elements: for each number of tiles the even cut, and that
// cut rounded up to what fills the array, down to tiles of one fold.  Ascending.
std::vector<std::int64_t> list_tile_sides(std::int64_t size, std::int64_t fold);

// Simulates the product without values with each tile of these sides that fits into scratch; sides
// that `input` gives are kept.  Calls `before_each` before each run, which may throw to end the
// search.  Throws what run_gemm() throws.
TileSearch search_tiles(const Topology& topology, const RuntimeOptions& options,
                        const GemmInput& input, const std::function<void()>& before_each);

}  // namespace kernbench::benches::gemm
