#include "sim_engine/components/tile_choices.h"

#include <algorithm>

namespace kernbench::sim {

namespace {

std::int64_t element_bytes(const MatrixAt& matrix) {
  return size_of(matrix.buffer.dtype);
}

}  // namespace

WaysOfTiles find_ways_of_tiles(const Topology& topology, Fabric& fabric, const PeLocation& home,
                               const PeLocation& pe, int slice_sharers) {
  const Topology::Pe& unit = topology.pe;
  const Time overhead = 2 * unit.scheduler_dispatch + unit.dma_setup + unit.mmu_latency;
  const auto way = [&](const Path& path, Bandwidth all, int sharers) -> LinkSpec {
    const Bandwidth share = all.is_unlimited() ? all : Bandwidth{all.per_second / sharers};
    return {std::min(path.bottleneck, share), path.latency + overhead};
  };
  const Endpoint to{Endpoint::Kind::tcm, pe};
  const Path& from_hbm = fabric.path({Endpoint::Kind::hbm, home}, to);
  const Path& from_sram = fabric.path({Endpoint::Kind::sram, {pe.sip, pe.cube, 0}}, to);
  const int pes_in_cube = slice_sharers * Routing::hbm_slice_count(topology);
  return {.hbm = way(from_hbm, Routing::hbm_slice(topology).bandwidth, slice_sharers),
          .sram = way(from_sram, topology.cube.sram.bandwidth, pes_in_cube),
          .sram_capacity = topology.cube.sram.capacity,
          .pes_in_cube = pes_in_cube};
}

const std::optional<GemmSize>& TileChoices::choose(const CompositePlan& plan,
                                                   const GemmSize& wanted, const Topology::Pe& pe,
                                                   const WaysOfTiles& ways, Bytes scratch) {
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
                               plan.a.readers.in_cube,
                               plan.a.readers.in_launch,
                               plan.b.readers.in_cube,
                               plan.b.readers.in_launch,
                               plan.a.further_transfers(),
                               plan.b.further_transfers(),
                               plan.a.is_transposed ? 1 : 0,
                               plan.b.is_transposed ? 1 : 0,
                               ways.hbm.bandwidth.per_second,
                               ways.hbm.latency.count(),
                               ways.sram.bandwidth.per_second,
                               ways.sram.latency.count(),
                               ways.pes_in_cube,
                               scratch};
  const auto [found, is_new] = chosen_.try_emplace(arguments);
  if (is_new) found->second = choose_tile(plan, wanted, pe, ways, scratch);
  return found->second;
}

}  // namespace kernbench::sim
