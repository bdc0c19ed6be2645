#include "sim_engine/components/tile.h"

namespace kernbench::sim {

void Tile::release() {
  node_->pool->give_back(node_);
}

Tile TilePool::make(DType dtype, std::int64_t element_count, Bytes* scratch_in_use) {
  if (free_.empty()) {
    free_.push_back(&nodes_.emplace_back());
    free_.back()->pool = this;
  }
  TileNode* node = free_.back();
  free_.pop_back();
  node->dtype = dtype;
  node->element_count = element_count;
  node->bytes = element_count * size_of(dtype);
  node->scratch_in_use = scratch_in_use;
  node->ready = false;
  *scratch_in_use += node->bytes;
  return Tile(node);
}

void TilePool::give_back(TileNode* node) {
  *node->scratch_in_use -= node->bytes;
  node->value = {};
  node->waiters.clear();
  free_.push_back(node);
}

}  // namespace kernbench::sim
