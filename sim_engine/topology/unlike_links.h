// The names of links between SIPs that are unlike the others, and whether a machine has them.

#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "sim_engine/topology/topology.h"

namespace kernbench {

// The inverse of to_string(), without the links' bandwidth and latency; nullopt if `name` has
// another form, such as a pair whose greater number comes first: the same links have one name.
std::optional<UnlikeLinks> parse_unlike_links(std::string_view name);

// Says why a machine has no such links: "SIPs 0 and 5 are no neighbours"; empty if it has some.
std::string describe_missing_links(const Topology::System& system, const UnlikeLinks& links);

namespace sim {

// True if they include the link from a SIP in a direction of the grid, or else over the link of
// that number, to `other`; that is -1 of links to a switch.
bool include(const UnlikeLinks& links, int sip, int number, int other);

}  // namespace sim

}  // namespace kernbench
