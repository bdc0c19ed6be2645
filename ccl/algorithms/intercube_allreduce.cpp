#include "ccl/algorithms/intercube_allreduce.h"

#include "ccl/algorithms/grid_exchange.h"

namespace kernbench::ccl {

void intercube_allreduce(tl::Context& tl, const KernelArgs& args) {
  const GridExchange exchange(tl, args.grid(), true);
  all_reduce_in_segments(tl, args, exchange.chunk_count(), exchange);
}

}  // namespace kernbench::ccl
