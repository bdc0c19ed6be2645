#include "sim_engine/values/value.h"

namespace kernbench::sim {

namespace {

constexpr std::size_t kSlabSize = 256;

Bytes bytes_of(const ValueNode& node) {
  return node.count * size_of(node.dtype);
}

// A view of a view becomes a view of what that one views.
void skip_one(ValueNode& view) {
  const ValueNode& skipped = *view.inputs[0].node();
  view.offset += skipped.offset;
  view.inputs[0] = NodeRef(skipped.inputs[0]);  // may end `skipped`
}

}  // namespace

NodeRange find_base(ValueNode& node) {
  if (!node.is_bound_view()) return {&node, 0};
  while (node.inputs[0].node()->is_bound_view()) {
    // Each pass halves the path for all that are on it.
    for (ValueNode* view = &node; view->is_bound_view(); view = view->inputs[0].node()) {
      if (view->inputs[0].node()->is_bound_view()) skip_one(*view);
    }
  }
  return {node.inputs[0].node(), node.offset};
}

void ValuePool::close() {
  closed_ = true;
  if (live_node_count_ == 0) delete this;
}

void ValuePool::grow() {
  slabs_.push_back(std::make_unique<ValueNode[]>(kSlabSize));
  for (std::size_t i = kSlabSize; i-- > 0;) {
    ValueNode& node = slabs_.back()[i];
    node.pool = this;
    node.next = free_;
    free_ = &node;
  }
}

ValueNode* ValuePool::create(ValueKind kind, DType dtype, std::int64_t count) {
  if (free_ == nullptr) grow();
  ValueNode* const node = free_;
  free_ = node->next;
  node->kind = kind;
  node->dtype = dtype;
  node->count = count;
  node->offset = 0;
  ++live_node_count_;
  return node;
}

std::byte* ValuePool::allocate_data(ValueNode& node) {
  const Bytes bytes = bytes_of(node);
  node.data = spare_bytes_ == bytes && spare_ != nullptr
                  ? std::move(spare_)
                  : std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(bytes));
  live_bytes_ += bytes;
  return node.data.get();
}

void ValuePool::release_data(ValueNode& node) {
  if (node.data == nullptr) return;
  const Bytes bytes = bytes_of(node);
  live_bytes_ -= bytes;
  if (bytes > kMostSpareBytes) return node.data.reset();
  spare_ = std::move(node.data);
  spare_bytes_ = bytes;
}

void ValuePool::reclaim(ValueNode* node) {
  node->next = dead_;
  dead_ = node;
  if (recycling_) return;  // called from the loop below, which goes on with it
  recycling_ = true;
  while (dead_ != nullptr) {
    ValueNode& dead = *dead_;
    dead_ = dead.next;
    recycle(dead);
  }
  recycling_ = false;
  if (closed_ && live_node_count_ == 0) delete this;
}

void ValuePool::recycle(ValueNode& node) {
  release_data(node);
  node.inputs = {};
  node.pieces = {};
  node.next = free_;
  free_ = &node;
  --live_node_count_;
}

}  // namespace kernbench::sim
