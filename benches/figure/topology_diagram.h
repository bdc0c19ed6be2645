// A picture of a modelled system: its SIPs, one SIP's cubes, one cube's PEs, one PE's units, with
// bandwidths, latencies and capacities.

#pragma once

#include <string>

#include "sim_engine/topology/topology.h"

namespace kernbench::benches::figure {

// Four panels, each the inside of one unit of the one before it; the colour of a panel's frame is
// that of the unit.  Grids of more than 8 in a dimension are drawn in part.  The same topology
// gives the same bytes.
std::string topology_diagram(const Topology& topology);

}  // namespace kernbench::benches::figure
