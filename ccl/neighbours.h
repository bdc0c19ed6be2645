// The neighbour tables of PE_IPCQ, installed once by init_process_group().
//
// Inside a SIP a PE's east, west, north and south neighbours are the PEs of its own number in the
// cubes beside it.  With `global_` they are the PEs of its own cube and number in the SIPs beside
// its own, round the edge where the SIPs' topology wraps around.

#pragma once

#include "sim_engine/components/ipcq.h"
#include "sim_engine/components/machine.h"

namespace kernbench::ccl {

// Throws DeviceError KB-M010 if queues in TCM do not fit into it.
void install_neighbours(sim::Machine& machine, const sim::IpcqParams& params);

}  // namespace kernbench::ccl
