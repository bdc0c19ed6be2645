// Locations in the modelled system, and the endpoints of paths.

#pragma once

#include <cstdint>
#include <string_view>

#include "sim_engine/topology/pe_location.h"
#include "sim_engine/topology/topology.h"

namespace kernbench::sim {

bool exists(const Topology& topology, const PeLocation& location);

// All PEs are numbered from 0, by SIP, cube and PE.
std::uint32_t pe_number(const Topology& topology, const PeLocation& location);

// What a path begins or ends at.  `cube` and `pe` are 0 for kinds that have no cube or PE.
struct Endpoint {
  enum class Kind : std::uint8_t {
    host,     // the host, as seen by one SIP
    io_cpu,   // the SIP's IO chiplet
    m_cpu,    // a cube's management processor
    sram,     // a cube's shared memory
    hbm,      // the slice of a cube's HBM that is local to a PE
    pe_cpu,   // a PE's control processor: the PE's port to the NoC, without its memory
    tcm,      // a PE's own memory
    network,  // the switch between SIPs
  };
  Kind kind = Kind::tcm;
  PeLocation at;
};

// Directions on a grid, of cubes or of SIPs.  y grows to the south, z downwards.
enum class Compass : std::uint8_t { east, west, north, south, up, down };
inline constexpr int kCompassCount = 6;
inline constexpr int kCubeSides = 4;  // cubes lie in one plane

std::string_view name_of(Compass direction);
constexpr Compass opposite(Compass direction) {
  return static_cast<Compass>(static_cast<int>(direction) ^ 1);
}

}  // namespace kernbench::sim
