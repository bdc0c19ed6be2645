#include "sim_engine/components/tile_choices.h"

#include <algorithm>

namespace kernbench::sim {

namespace {

std::int64_t element_bytes(const MatrixAt& matrix) {
  return size_of(matrix.buffer.dtype);
}

// The mean rate at which cubes send to all others, counted at the senders.  Messages go along a row
// of cubes first, so that the links of that direction carry those for all of the columns behind.
Bandwidth rate_to_all_cubes(const Topology& topology) {
  const Bandwidth link = topology.sip.ucie.bandwidth;
  const std::int64_t w = topology.sip.cubes_w;
  const std::int64_t h = topology.sip.cubes_h;
  if (link.is_unlimited() || w * h == 1) return {};
  std::int64_t busiest = 0;  // the cubes behind each cube's busiest link, of all cubes
  for (std::int64_t x = 0; x < w; ++x) {
    for (std::int64_t y = 0; y < h; ++y) {
      busiest += std::max(std::max(x, w - 1 - x) * h, std::max(y, h - 1 - y));
    }
  }
  const std::int64_t cubes = w * h;
  return {static_cast<std::int64_t>(Wide{link.per_second} * cubes * (cubes - 1) / busiest)};
}

}  // namespace

WaysOfTiles find_ways_of_tiles(const Topology& topology, Fabric& fabric, const PeLocation& home,
                               const PeLocation& pe, const Sharers& sharers) {
  const auto shared = [](Bandwidth all, int count) {
    return all.is_unlimited() ? all : Bandwidth{all.per_second / count};
  };
  const auto way = [&](const Path& path, Bandwidth all, int count) -> WayOfTiles {
    return {{path.bottleneck, path.latency}, shared(all, count)};
  };
  const Endpoint tcm{Endpoint::Kind::tcm, pe};
  const Endpoint sram{Endpoint::Kind::sram, {pe.sip, pe.cube, 0}};
  const Endpoint opposite{Endpoint::Kind::sram, {pe.sip, topology.cube_count() - 1 - pe.cube, 0}};
  const Endpoint hbm{Endpoint::Kind::hbm, home};
  const Path& between_cubes = fabric.path(opposite, sram);
  return {
      .hbm = way(fabric.path(hbm, tcm), Routing::hbm_slice(topology).bandwidth, sharers.of_slice),
      .sram = way(fabric.path(sram, tcm), topology.cube.sram.bandwidth, sharers.of_cube),
      .cubes = {between_cubes.bottleneck, between_cubes.latency},
      .to_all_cubes = rate_to_all_cubes(topology),
      .hbm_to_sram = fabric.path({Endpoint::Kind::hbm, pe}, sram).latency,
      .sram_capacity = topology.cube.sram.capacity,
      .launch_spread = (sharers.of_cube - 1) * topology.cube.m_cpu_dispatch,
      .pes_in_cube = sharers.of_cube,
      .slices_in_cube = Routing::hbm_slice_count(topology)};
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
                               ways.hbm.alone.bandwidth.per_second,
                               ways.hbm.alone.latency.count(),
                               ways.hbm.share.per_second,
                               ways.sram.alone.bandwidth.per_second,
                               ways.sram.alone.latency.count(),
                               ways.sram.share.per_second,
                               ways.cubes.bandwidth.per_second,
                               ways.cubes.latency.count(),
                               ways.to_all_cubes.per_second,
                               ways.hbm_to_sram.count(),
                               ways.launch_spread.count(),
                               ways.pes_in_cube,
                               ways.slices_in_cube,
                               scratch};
  const auto [found, is_new] = chosen_.try_emplace(arguments);
  if (is_new) found->second = choose_tile(plan, wanted, pe, ways, scratch);
  return found->second;
}

}  // namespace kernbench::sim
