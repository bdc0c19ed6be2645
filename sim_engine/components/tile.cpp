#include "sim_engine/components/tile.h"

#include <vector>

namespace kernbench::sim {

TileNode& TilePool::take(DType dtype, std::int64_t element_count) {
  if (free_.empty()) {
    // Giving a tile back must not need memory: it happens in destructors.
    if (free_.capacity() <= nodes_.size()) free_.reserve(2 * nodes_.size() + 1);
    free_.push_back(&nodes_.emplace_back());
    free_.back()->pool = this;
  }
  TileNode& node = *free_.back();
  free_.pop_back();
  node.dtype = dtype;
  node.element_count = element_count;
  node.bytes = element_count * size_of(dtype);
  node.charged = 0;
  node.ready = false;
  node.ready_parts = 0;
  return node;
}

Tile TilePool::make(DType dtype, std::int64_t element_count, Bytes* scratch_in_use) {
  TileNode& node = take(dtype, element_count);
  node.charged = node.bytes;
  node.scratch_in_use = scratch_in_use;
  *scratch_in_use += node.bytes;
  return Tile(&node);
}

Tile TilePool::make_scratch(Bytes bytes, Bytes* scratch_in_use) {
  TileNode& node = take(DType::f32, 0);
  node.bytes = node.charged = bytes;
  node.scratch_in_use = scratch_in_use;
  *scratch_in_use += bytes;
  return Tile(&node);
}

bool TilePool::can_be_replaced(const Tile& old, Bytes bytes) {
  const std::uint32_t expected = old->ready ? 1 : 2;
  return old->references == expected && old->charged == bytes;
}

Tile TilePool::make_in_place_of(const Tile& old, DType dtype, std::int64_t element_count,
                                Bytes* scratch_in_use) {
  if (can_be_replaced(old, element_count * size_of(dtype))) {
    *scratch_in_use -= std::exchange(old->charged, 0);
  }
  return make(dtype, element_count, scratch_in_use);
}

namespace {

// Adds the tiles that a part of a view shows: a view of a view is one of what that is made of.
void add_shown(std::vector<Tile>& shown, const Tile& part) {
  if (part->parts.empty()) return shown.push_back(part);
  for (const Tile& inner : part->parts) add_shown(shown, inner);
}

}  // namespace

Tile TilePool::make_view(DType dtype, std::int64_t element_count, std::span<const Tile> parts) {
  TileNode& node = take(dtype, element_count);
  if (parts.size() == 1) {
    // A list of parts is not copied, so that what is ready of it is found out once.
    const Tile& whole = parts.front();
    node.parts.push_back(whole->parts.size() == 1 ? whole->parts.front() : whole);
  } else {
    for (const Tile& part : parts) add_shown(node.parts, part);
  }
  return Tile(&node);
}

void Tile::give_back(TileReferences* node) {
  node->pool->give_back(static_cast<TileNode*>(node));
}

void TilePool::give_back(TileNode* node) {
  if (node->charged > 0) *node->scratch_in_use -= node->charged;
  node->value = {};
  node->first_waiter = nullptr;
  node->later_waiters.clear();
  node->parts.clear();
  free_.push_back(node);
}

}  // namespace kernbench::sim
