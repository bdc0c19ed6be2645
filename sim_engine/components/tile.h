// A value in a PE's scratch memory (TCM): from the command that makes it to the last use.

#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <utility>
#include <vector>

#include "sim_engine/base/dtype.h"
#include "sim_engine/data/value.h"

namespace kernbench::sim {

struct Command;
class TilePool;

struct TileNode;

// A counted reference to a tile.  The scratch is given back with the last one.
class Tile {
 public:
  Tile() = default;
  explicit Tile(TileNode* node);
  Tile(const Tile& other);
  Tile(Tile&& other) noexcept : node_(std::exchange(other.node_, nullptr)) {}
  Tile& operator=(Tile other) noexcept {
    std::swap(node_, other.node_);
    return *this;
  }
  ~Tile();

  explicit operator bool() const { return node_ != nullptr; }
  bool operator==(const Tile&) const = default;  // whether it is the same one
  TileNode* operator->() const { return node_; }

 private:
  TileNode* node_ = nullptr;
};

struct TileNode {
  Value value;
  DType dtype = DType::f32;
  std::int64_t element_count = 0;
  Bytes bytes = 0;
  Bytes charged = 0;                // scratch that is given back with the tile
  Bytes* scratch_in_use = nullptr;  // the account that it is given back to
  bool ready = false;               // its command has finished
  std::vector<Command*> waiters;    // commands that need it
  std::vector<Tile> parts;          // of a view: the tiles whose memory it is, ready when they are
  std::uint32_t references = 0;
  std::uint32_t generation = 0;  // counts the tiles that this node has been
  TilePool* pool = nullptr;
};

// Tells whether the command that makes a tile is under way, without holding the tile's scratch.
class TileTicket {
 public:
  // REQUIRES: the command holds the tile while it is under way; the pool outlives this
  explicit TileTicket(const Tile& tile)
      : node_(tile.operator->()), generation_(node_->generation) {}

  bool is_under_way() const { return node_->generation == generation_ && !node_->ready; }
  Tile tile() const { return Tile(node_); }  // REQUIRES: is_under_way()

 private:
  TileNode* node_;
  std::uint32_t generation_;
};

// Nodes that are used again: nothing is allocated once warm.
class TilePool {
 public:
  // A tile of `element_count` elements that charges `scratch_in_use` for its bytes.
  Tile make(DType dtype, std::int64_t element_count, Bytes* scratch_in_use);

  // Scratch without a value.
  Tile make_scratch(Bytes bytes, Bytes* scratch_in_use);

  // As make() in the memory of `old`, which gives it up, if nobody but `old` and the command that
  // makes its value refers to it and it is as large.  Else as make().
  Tile make_in_place_of(const Tile& old, DType dtype, std::int64_t element_count,
                        Bytes* scratch_in_use);
  static bool can_be_replaced(const Tile& old, Bytes bytes);

  // A view of other tiles' memory: it costs no scratch and no time, and keeps them alive.
  Tile make_view(DType dtype, std::int64_t element_count, std::span<const Tile> parts);

  std::size_t live_count() const { return nodes_.size() - free_.size(); }

 private:
  friend class Tile;
  TileNode& take(DType dtype, std::int64_t element_count);
  void give_back(TileNode* node);

  std::deque<TileNode> nodes_;  // addresses stay
  std::vector<TileNode*> free_;
};

inline Tile::Tile(TileNode* node) : node_(node) {
  ++node_->references;
}
inline Tile::Tile(const Tile& other) : node_(other.node_) {
  if (node_ != nullptr) ++node_->references;
}
inline Tile::~Tile() {
  if (node_ != nullptr && --node_->references == 0) node_->pool->give_back(node_);
}

}  // namespace kernbench::sim
