#include "sim_engine/components/tile_choices.h"

#include <algorithm>

namespace kernbench::sim {

namespace {

std::int64_t element_bytes(const MatrixAt& matrix) {
  return size_of(matrix.buffer.dtype);
}

}  // namespace

LinkSpec find_way_of_tiles(const Topology& topology, const Path& path, int slice_sharers) {
  const Topology::Pe& pe = topology.pe;
  const Bandwidth slice = Routing::hbm_slice(topology).bandwidth;
  const Bandwidth share =
      slice.is_unlimited() ? slice : Bandwidth{slice.per_second / slice_sharers};
  return {std::min(path.bottleneck, share),
          path.latency + 2 * pe.scheduler_dispatch + pe.dma_setup + pe.mmu_latency};
}

const std::optional<GemmSize>& TileChoices::choose(const CompositePlan& plan,
                                                   const GemmSize& wanted, const Topology::Pe& pe,
                                                   const LinkSpec& way, Bytes scratch) {
  const Arguments arguments = {plan.size.m,
                               plan.size.n,
                               plan.size.k,
                               wanted.m,
                               wanted.n,
                               wanted.k,
                               element_bytes(plan.a),
                               element_bytes(plan.b),
                               element_bytes(plan.c),
                               plan.bias ? element_bytes(*plan.bias) : 0,
                               way.bandwidth.per_second,
                               way.latency.count(),
                               scratch};
  const auto [found, is_new] = chosen_.try_emplace(arguments);
  if (is_new) found->second = choose_tile(plan, wanted, pe, way, scratch);
  return found->second;
}

}  // namespace kernbench::sim
