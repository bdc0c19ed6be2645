// The page's charts of kernels, of memory and of energy.

#pragma once

#include <string>

#include "runtime/profiler/energy.h"
#include "runtime/profiler/profile.h"
#include "runtime/simulation/run_log.h"
#include "sim_engine/topology/topology.h"

namespace kernbench::benches::page {

// A point for each kernel: what one of its PEs computes per second over the operations per byte of
// HBM, under what a PE's array and its share of the HBM allow.  Empty if no kernel has both.
std::string roofline(const runtime::Profile& profile, const Topology& topology);

// The HBM that tensors hold over time, by kind, on the device that holds most; kinds and modules at
// its peak, and the peaks of all devices.
std::string memory(const runtime::RunLog& log, Time end);

// A bar for each kind of unit that has used energy.  Empty if none is counted.
std::string energy(const runtime::EnergyUse& use);

}  // namespace kernbench::benches::page
