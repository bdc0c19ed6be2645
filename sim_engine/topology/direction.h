// Converts directions on a grid to directions of queues, and back.

#pragma once

#include "sim_engine/topology/location.h"

namespace kernbench::sim {

// The direction of the neighbour on that side inside the SIP, where none is above or below.
constexpr Direction to_direction(Compass direction) {
  return static_cast<Direction>(direction);
}

// The direction of the neighbour on that side in another SIP.
constexpr Direction to_global(Compass direction) {
  return static_cast<Direction>(static_cast<int>(direction) + kCubeSides);
}

// The side on which the neighbour in `direction` lies, inside the SIP or in another one.
constexpr Compass to_compass(Direction direction) {
  const int number = static_cast<int>(direction);
  return static_cast<Compass>(number < kCubeSides ? number : number - kCubeSides);
}

static_assert(to_direction(Compass::east) == Direction::east &&
              to_direction(Compass::west) == Direction::west &&
              to_direction(Compass::north) == Direction::north &&
              to_direction(Compass::south) == Direction::south);
static_assert(to_global(Compass::east) == Direction::global_east &&
              to_global(Compass::west) == Direction::global_west &&
              to_global(Compass::north) == Direction::global_north &&
              to_global(Compass::south) == Direction::global_south &&
              to_global(Compass::up) == Direction::global_up &&
              to_global(Compass::down) == Direction::global_down);
static_assert(to_compass(Direction::south) == Compass::south &&
              to_compass(Direction::global_west) == Compass::west);
static_assert(to_direction(opposite(Compass::north)) == opposite(Direction::north) &&
              to_global(opposite(Compass::east)) == opposite(Direction::global_east));

}  // namespace kernbench::sim
