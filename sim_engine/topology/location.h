// Locations in the modelled system, the endpoints of paths, grids of cubes and of SIPs, and a PE's
// names for its neighbours.

#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "sim_engine/topology/topology.h"

namespace kernbench::sim {

// A processing element, by the indices that the user sees.
struct PeLocation {
  int sip = 0;
  int cube = 0;  // row-major in the SIP's cube mesh
  int pe = 0;    // in the cube

  friend auto operator<=>(const PeLocation&, const PeLocation&) = default;
};

// The switch between SIPs, where a queue leads to it or from it.
inline constexpr PeLocation kSwitchLocation{-1, 0, 0};

// "sip0.cube3.pe5"; "switch"
std::string to_string(const PeLocation& location);

// The inverse; nullopt if `text` has another form.  It does not check whether the PE exists.
std::optional<PeLocation> parse_pe_location(std::string_view text);

bool exists(const Topology& topology, const PeLocation& location);

// All PEs are numbered from 0, by SIP, cube and PE.
std::uint32_t pe_number(const Topology& topology, const PeLocation& location);
inline std::uint32_t pes_of_sip(const Topology& topology) {
  return static_cast<std::uint32_t>(topology.cube_count() * topology.pe_count());
}

// A path begins and ends at an endpoint.  `cube` and `pe` are 0 for kinds that have no cube or PE.
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

// A rectangle of cubes or of SIPs, or several above each other, numbered row by row, with or
// without wrap-around links.
struct Grid {
  int w = 1;
  int h = 1;
  bool wraps = false;
  int d = 1;

  int count() const { return w * h * d; }
  int x_of(int index) const { return index % w; }
  int y_of(int index) const { return index / w % h; }
  int z_of(int index) const { return index / w / h; }
  int index_of(int x, int y, int z = 0) const { return (z * h + y) * w + x; }

  // The neighbour of `index` in a direction, or -1 at an edge without wrap-around.  In a dimension
  // of size 1 a node has no neighbour.
  int neighbour(int index, Compass direction) const;

  // The first step from one node towards another: x before y before z, the shorter way round, and
  // east, south or down if both ways are equally long.
  // REQUIRES: from != to
  Compass first_step(int from, int to) const;

  // The number of a node as counted from another one, which is 0: forward in each dimension and
  // round its end.  Nodes that stand alike see each other in the same order by it.
  int place_seen_from(int from, int other) const;
};

Grid cube_grid(const Topology& topology);
// A switch and a full mesh count as a ring, since any order of SIPs is one.  Nodes are rows.
Grid sip_grid(const Topology::System& system);
// The grid of the SIPs of one innermost node, or of all SIPs.
Grid node_grid(const Topology::System& system);
inline Grid sip_grid(const Topology& topology) {
  return sip_grid(topology.system);
}

// A PE's name for a neighbour to or from which it has a queue (ADR-0025).

// A neighbour lies inside the SIP, or in another SIP.
enum class Direction : std::uint8_t {
  east,
  west,
  north,
  south,
  global_east,
  global_west,
  global_north,
  global_south,
  global_up,
  global_down,
};
inline constexpr int kDirectionCount = 10;

std::string_view name_of(Direction direction);
constexpr Direction opposite(Direction direction) {
  return static_cast<Direction>(static_cast<int>(direction) ^ 1);
}

// A direction, and which of the neighbours in that direction: the children in a tree, for example,
// may all lie to the south.  A direction alone means the first neighbour.
struct Port {
  Direction direction = Direction::east;
  int index = 0;

  constexpr Port() = default;
  constexpr Port(Direction to, int number = 0) : direction(to), index(number) {}  // NOLINT: as said

  friend constexpr bool operator==(Port, Port) = default;

  // "east" for the first neighbour of a direction, "east[2]" for the third.
  friend std::string to_string(Port port);
};

constexpr Port opposite(Port port) {
  return {opposite(port.direction), port.index};
}

}  // namespace kernbench::sim
