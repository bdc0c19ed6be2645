// The parts of a machine that an exploration makes slower.

#pragma once

#include <cstdint>
#include <string_view>

#include "sim_engine/topology/topology.h"

namespace kernbench::testing {

inline constexpr std::uint64_t kMachinePartCount = 9;

// "the latency of links between devices"; empty for a number that is none.
std::string_view name_of_part(std::uint64_t part);

// Makes a part slower by so many thousandths.  It is never faster than the file says, so that
// bounds hold.
void slow_down(Topology& topology, std::uint64_t part, std::uint64_t thousandths);

}  // namespace kernbench::testing
