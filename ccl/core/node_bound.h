// The time that the links between nodes need for a collective, whatever its algorithm.

#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "runtime/distributed/options.h"
#include "sim_engine/base/units.h"
#include "sim_engine/topology/topology.h"

namespace kernbench::ccl {

// Returns bytes * numerator / denominator at a bandwidth, rounded down: a bound must not be too
// high.
Time at_least(Bytes bytes, std::int64_t numerator, std::int64_t denominator, Bandwidth bandwidth);

// The bytes that the second member must get from the first if no other has them.
using BytesOfPair = std::function<Bytes(std::size_t from, std::size_t to)>;

// The longest time that what enters or leaves a node of any level needs on its members' links to
// the others; 0 without nodes, and of groups of more than 64 members.
Time bound_of_nodes(const Topology& topology, std::span<const int> sips,
                    distributed::CollectiveKind kind, const BytesOfPair& needs);

}  // namespace kernbench::ccl
