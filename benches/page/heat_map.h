#pragma once

#include <string>

#include "sim_engine/components/machine.h"

namespace kernbench::benches::page {

// The links between SIPs, and those between the cubes of the SIP whose cube links are busiest, on a
// drawing of the machine: a line for each direction, coloured by how long the link was busy with
// kernels' data, of the time in which kernels ran; beside it when they were.  Under it the busiest
// links by name.
std::string heat_map(const sim::Machine& machine);

}  // namespace kernbench::benches::page
