#pragma once

#include <string>

#include "sim_engine/components/machine.h"

namespace kernbench::benches::page {

// The busiest links of a class, a line for each over the time of the run, coloured by the share of
// each stretch of time in which kernels' data kept the link busy.  Empty if there are none, or the
// run was not profiled.
std::string links_over_time(const sim::Machine& machine, sim::UnitClass unit_class);

}  // namespace kernbench::benches::page
