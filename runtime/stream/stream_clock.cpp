#include "runtime/stream/stream_clock.h"

#include <algorithm>
#include <utility>

namespace kernbench::runtime {

StreamSlot::StreamSlot(std::shared_ptr<StreamSlots> slots, int stream)
    : slots_(std::move(slots)),
      stream_(stream),
      index_(slots_->take()),
      // Accesses may be noted before the stream's first operation, and nothing follows them yet.
      last_(slots_->last_[static_cast<std::size_t>(index_)] + 1) {}

StreamSlot::~StreamSlot() {
  slots_->last_[static_cast<std::size_t>(index_)] = last_;
  slots_->free_.push_back(index_);
}

int StreamSlots::take() {
  if (free_.empty()) {
    free_.push_back(static_cast<int>(last_.size()));
    last_.push_back(0);
  }
  const int taken = free_.back();
  free_.pop_back();
  return taken;
}

namespace {

// Returns which branch below node `root` leads to node `target`, which lies below it.
std::size_t find_branch(std::size_t root, std::size_t target, std::size_t width) {
  while ((target - 1) / width != root) target = (target - 1) / width;
  return (target - 1) % width;
}

}  // namespace

StreamClock::Ref StreamClock::with(const Ref& tree, std::size_t root, std::size_t slot,
                                   std::uint64_t number) {
  auto changed = tree == nullptr ? std::make_shared<Node>() : std::make_shared<Node>(*tree);
  if (slot / kWidth == root) {
    changed->numbers[slot % kWidth] = number;
    return changed;
  }
  const std::size_t branch = find_branch(root, slot / kWidth, kWidth);
  Ref& below = changed->below[branch];
  below = with(below, kWidth * root + 1 + branch, slot, number);
  return changed;
}

void StreamClock::add(const StreamSlot& slot, std::uint64_t number) {
  if (has(slot, number)) return;
  root_ = with(root_, 0, static_cast<std::size_t>(slot.index()), number);
}

bool StreamClock::has(const StreamSlot& slot, std::uint64_t number) const {
  const auto index = static_cast<std::size_t>(slot.index());
  const Node* node = root_.get();
  for (std::size_t at = 0; node != nullptr && at != index / kWidth;) {
    const std::size_t branch = find_branch(at, index / kWidth, kWidth);
    node = node->below[branch].get();
    at = kWidth * at + 1 + branch;
  }
  return node != nullptr && number <= node->numbers[index % kWidth];
}

// What both have in common is one object in most cases, and is not looked into.  Where they are
// merely equal the result has that of `b`, so that they share it when they meet again.
StreamClock::Ref StreamClock::joined(const Ref& a, const Ref& b) {
  if (a == b || b == nullptr) return a;
  if (a == nullptr) return b;
  Node both;
  for (std::size_t i = 0; i < kWidth; ++i) {
    both.numbers[i] = std::max(a->numbers[i], b->numbers[i]);
    both.below[i] = joined(a->below[i], b->below[i]);
  }
  if (both == *b) return b;
  if (both == *a) return a;
  return std::make_shared<const Node>(std::move(both));
}

}  // namespace kernbench::runtime
