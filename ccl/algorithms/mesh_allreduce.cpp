#include "ccl/algorithms/mesh_allreduce.h"

#include "ccl/algorithms/grid_exchange.h"

namespace kernbench::ccl {

void mesh_allreduce(tl::Context& tl, const KernelArgs& args) {
  const GridExchange exchange(tl, args.grid(), false);
  all_reduce_in_segments(tl, args, exchange.chunk_count(), exchange);
}

}  // namespace kernbench::ccl
