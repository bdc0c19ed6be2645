#include "ccl/neighbours.h"

#include "sim_engine/components/grid.h"

namespace kernbench::ccl {

namespace {

constexpr sim::Direction global(sim::Compass direction) {
  return static_cast<sim::Direction>(static_cast<int>(direction) + sim::kCompassCount);
}

void install_neighbours_of(sim::Machine& machine, const sim::IpcqParams& params,
                           const sim::PeLocation& from) {
  const sim::Grid cubes = sim::cube_grid(machine.topology());
  const sim::Grid sips = sim::sip_grid(machine.topology());
  for (int i = 0; i < sim::kCompassCount; ++i) {
    const auto compass = static_cast<sim::Compass>(i);
    const auto direction = static_cast<sim::Direction>(i);
    if (const int cube = cubes.neighbour(from.cube, compass); cube >= 0) {
      machine.connect({from, direction, {from.sip, cube, from.pe}, opposite(direction)}, params);
    }
    if (const int sip = sips.neighbour(from.sip, compass); sip >= 0) {
      machine.connect({from, global(compass), {sip, from.cube, from.pe}, opposite(global(compass))},
                      params);
    }
  }
}

}  // namespace

void install_neighbours(sim::Machine& machine, const sim::IpcqParams& params) {
  const Topology& topology = machine.topology();
  for (int sip = 0; sip < topology.system.sip_count; ++sip) {
    for (int cube = 0; cube < topology.cube_count(); ++cube) {
      for (int pe = 0; pe < topology.pe_count(); ++pe) {
        install_neighbours_of(machine, params, {sip, cube, pe});
      }
    }
  }
}

}  // namespace kernbench::ccl
