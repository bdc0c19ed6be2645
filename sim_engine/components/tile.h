// A value in a PE's scratch memory (TCM): from the command that makes it to the last use.

#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "sim_engine/base/dtype.h"
#include "sim_engine/components/kernel_handles.h"
#include "sim_engine/values/value.h"

namespace kernbench::sim {

struct Command;
struct TileNode : TileReferences {
  Value value;
  DType dtype = DType::f32;
  std::int64_t element_count = 0;
  Bytes bytes = 0;
  Bytes charged = 0;                // scratch that is given back with the tile
  Bytes* scratch_in_use = nullptr;  // the account that it is given back to
  bool ready = false;               // its command has finished
  Command* first_waiter = nullptr;  // commands that need it, in order: mostly one
  std::vector<Command*> later_waiters;
  std::vector<Tile> parts;      // of a view: the tiles it refers to; it is ready when they are
  std::size_t ready_parts = 0;  // so many of them, from the first on, were ready when last asked
};

// Recycles nodes, so that nothing is allocated once enough exist.
class TilePool {
 public:
  // A tile of `element_count` elements that charges `scratch_in_use` for its bytes.
  Tile make(DType dtype, std::int64_t element_count, Bytes* scratch_in_use);

  // Scratch without a value.
  Tile make_scratch(Bytes bytes, Bytes* scratch_in_use);

  // Like make(), but reuses the memory of `old` if it has the same size and is referred to only by
  // this handle and by the command that makes its value.
  Tile make_in_place_of(const Tile& old, DType dtype, std::int64_t element_count,
                        Bytes* scratch_in_use);
  static bool can_be_replaced(const Tile& old, Bytes bytes);

  // A view of other tiles' memory.  It costs no scratch and no time, and keeps those tiles alive.
  Tile make_view(DType dtype, std::int64_t element_count, std::span<const Tile> parts);

  std::size_t live_count() const { return nodes_.size() - free_.size(); }

 private:
  friend class Tile;
  TileNode& take(DType dtype, std::int64_t element_count);
  void give_back(TileNode* node);

  std::deque<TileNode> nodes_;  // addresses stay
  std::vector<TileNode*> free_;
};

}  // namespace kernbench::sim
