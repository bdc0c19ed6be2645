// A handle to a value in a PE's scratch memory, for those who need not know what a tile is
// (tile.h).

#pragma once

#include <cstdint>
#include <utility>

namespace kernbench::sim {

class TilePool;
struct TileNode;

// The part of a tile's node that a handle needs.
struct TileReferences {
  std::uint32_t references = 0;
  TilePool* pool = nullptr;
};

// A counted reference to a tile.  The scratch is given back with the last one.
class Tile {
 public:
  Tile() = default;
  explicit Tile(TileReferences* node) : node_(node) { ++node_->references; }
  Tile(const Tile& other) : node_(other.node_) {
    if (node_ != nullptr) ++node_->references;
  }
  Tile(Tile&& other) noexcept : node_(std::exchange(other.node_, nullptr)) {}
  Tile& operator=(Tile other) noexcept {
    std::swap(node_, other.node_);
    return *this;
  }
  ~Tile() {
    if (node_ != nullptr && --node_->references == 0) give_back(node_);
  }

  void reset() {
    if (node_ == nullptr) return;
    TileReferences* const node = std::exchange(node_, nullptr);
    if (--node->references == 0) give_back(node);
  }

  explicit operator bool() const { return node_ != nullptr; }
  bool operator==(const Tile&) const = default;  // true if both refer to the same tile
  // The caller must include tile.h.  It is a template so that this header need not.
  template <class Node = TileNode>
  Node* operator->() const {
    return static_cast<Node*>(node_);
  }

 private:
  static void give_back(TileReferences* node);

  TileReferences* node_ = nullptr;
};

class IpcqChannel;

// A receive that was posted, until it is closed.
struct PostedReceive {
  IpcqChannel* channel = nullptr;
  std::uint32_t number = 0;
  Tile tile;  // has its value once the message has arrived
};

}  // namespace kernbench::sim
