// A value in a PE's scratch memory (TCM): from the command that makes it to the last use.

#pragma once

#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "sim_engine/base/dtype.h"
#include "sim_engine/data/value.h"

namespace kernbench::sim {

struct Command;
class TilePool;

struct TileNode {
  Value value;
  DType dtype = DType::f32;
  std::int64_t element_count = 0;
  Bytes bytes = 0;
  Bytes* scratch_in_use = nullptr;  // the account that the bytes are given back to
  bool ready = false;               // its command has finished
  std::vector<Command*> waiters;    // commands that need it
  std::uint32_t references = 0;
  TilePool* pool = nullptr;
};

// A counted reference to a tile.  The scratch is given back with the last one.
class Tile {
 public:
  Tile() = default;
  explicit Tile(TileNode* node) : node_(node) { ++node_->references; }
  Tile(const Tile& other) : node_(other.node_) {
    if (node_ != nullptr) ++node_->references;
  }
  Tile(Tile&& other) noexcept : node_(std::exchange(other.node_, nullptr)) {}
  Tile& operator=(Tile other) noexcept {
    std::swap(node_, other.node_);
    return *this;
  }
  ~Tile() {
    if (node_ != nullptr && --node_->references == 0) release();
  }

  explicit operator bool() const { return node_ != nullptr; }
  TileNode* operator->() const { return node_; }

 private:
  void release();

  TileNode* node_ = nullptr;
};

// Nodes that are used again: nothing is allocated once warm.
class TilePool {
 public:
  // A tile of `element_count` elements that charges `scratch_in_use` for its bytes.
  Tile make(DType dtype, std::int64_t element_count, Bytes* scratch_in_use);

  std::size_t live_count() const { return nodes_.size() - free_.size(); }

 private:
  friend class Tile;
  void give_back(TileNode* node);

  std::deque<TileNode> nodes_;  // addresses stay
  std::vector<TileNode*> free_;
};

}  // namespace kernbench::sim
