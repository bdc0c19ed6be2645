#pragma once

#include <cstdint>

#include "sim_engine/components/tile_handle.h"

namespace kernbench::sim {

class IpcqChannel;

// A receive that was posted, until it is closed.
struct PostedReceive {
  IpcqChannel* channel = nullptr;
  std::uint32_t number = 0;
  Tile tile;  // has its value once the message has arrived
};

}  // namespace kernbench::sim
