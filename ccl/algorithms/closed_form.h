// The time that each algorithm takes from the beginning of its kernels, when only links cost time
// (TIMING.md 3.2); nullopt where none is known.  alpha is the latency of the path between
// neighbours, beta the time per byte on its slowest link.
//
// Between SIPs, a PE's ports and memory are taken to cost nothing; where they do, an algorithm
// takes longer.  Between PEs that are ranks the ports are the links: loading and storing the
// tensor counts.

#pragma once

#include "ccl/core/algorithm.h"

namespace kernbench::ccl {

std::optional<Time> grid_closed_form(const CollectiveCase& collective);
std::optional<Time> mesh_closed_form(const CollectiveCase& collective);
std::optional<Time> ring_closed_form(const CollectiveCase& collective);
std::optional<Time> both_rings_closed_form(const CollectiveCase& collective);
std::optional<Time> tree_closed_form(const CollectiveCase& collective);
std::optional<Time> swing_closed_form(const CollectiveCase& collective);
std::optional<Time> direct_closed_form(const CollectiveCase& collective);
std::optional<Time> switch_closed_form(const CollectiveCase& collective);
std::optional<Time> hello_closed_form(const CollectiveCase& collective);

}  // namespace kernbench::ccl
