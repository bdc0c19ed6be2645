#include "ccl/neighbours.h"

#include "sim_engine/components/direction.h"
#include "sim_engine/components/grid.h"

namespace kernbench::ccl {

namespace {

void install_neighbours_of(sim::Machine& machine, const sim::IpcqParams& params,
                           const sim::PeLocation& from) {
  const sim::Grid cubes = sim::cube_grid(machine.topology());
  const sim::Grid sips = sim::sip_grid(machine.topology());
  for (int i = 0; i < sim::kCompassCount; ++i) {
    const auto compass = static_cast<sim::Compass>(i);
    const sim::Direction near = sim::to_direction(compass);
    const sim::Direction far = sim::to_global(compass);
    if (const int cube = cubes.neighbour(from.cube, compass); cube >= 0) {
      machine.connect({from, near, {from.sip, cube, from.pe}, opposite(near)}, params);
    }
    if (const int sip = sips.neighbour(from.sip, compass); sip >= 0) {
      machine.connect({from, far, {sip, from.cube, from.pe}, opposite(far)}, params);
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
