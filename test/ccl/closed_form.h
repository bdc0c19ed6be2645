// The time that each algorithm of the library takes from the beginning of its kernels, when only
// links cost time: the formulas of TIMING.md 3.2, by hand; nullopt where none is known.  alpha is
// the latency of the path between neighbours, beta the time per byte on its slowest link.
//
// Between SIPs, a PE's ports and memory are taken to cost nothing; where they do, an algorithm
// takes longer.  Between PEs that are ranks the ports are the links: loading and storing the
// tensor counts.

#pragma once

#include <optional>

#include "ccl/core/algorithm.h"

namespace kernbench::test {

// Returns the time of the config's algorithm.
std::optional<Time> closed_form(const ccl::CollectiveCase& collective);

}  // namespace kernbench::test
