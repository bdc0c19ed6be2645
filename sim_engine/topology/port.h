// A PE's name for a neighbour to or from which it has a queue (ADR-0025).

#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace kernbench::sim {

// Where a neighbour lies: inside the SIP, or in another SIP.
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
