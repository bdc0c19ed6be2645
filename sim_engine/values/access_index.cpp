#include "sim_engine/values/access_index.h"

#include <algorithm>
#include <utility>

namespace kernbench::sim {

namespace {

// The same for each id in every run, and as good as random among ids.
std::uint32_t make_priority(AccessIndex::Id id) {
  return (id + 1) * 0x9e3779b1;
}

}  // namespace

AccessIndex::Id AccessIndex::add(Set& set, RegionId region, const ElementRange& elements) {
  Id id = free_;
  if (id != kNone) {
    free_ = nodes_[id].right;
  } else {
    id = static_cast<Id>(nodes_.size());
    nodes_.emplace_back();
  }
  Node& node = nodes_[id];
  node.region = region;
  node.elements = elements;
  node.left = kNone;
  node.right = set.unsorted;
  node.is_sorted = false;
  if (set.unsorted != kNone) nodes_[set.unsorted].left = id;
  set.unsorted = id;
  ++set.unsorted_count;
  return id;
}

void AccessIndex::remove(Set& set, Id id) {
  if (nodes_[id].is_sorted) {
    take_out(set.tree, id);
  } else {
    unlink(set, id);
  }
  nodes_[id].right = free_;
  free_ = id;
}

void AccessIndex::unlink(Set& set, Id id) {
  const Node& node = nodes_[id];
  (node.left == kNone ? set.unsorted : nodes_[node.left].right) = node.right;
  if (node.right != kNone) nodes_[node.right].left = node.left;
  --set.unsorted_count;
}

void AccessIndex::sort_in(Set& set) {
  while (set.unsorted != kNone) {
    const Id id = set.unsorted;
    unlink(set, id);
    Node& node = nodes_[id];
    node.is_sorted = true;
    node.left = node.right = kNone;
    node.limit = node.end();
    Id before = kNone;
    Id after = kNone;
    split(set.tree, id, before, after);
    set.tree = join(join(before, id), after);
  }
}

bool AccessIndex::comes_before(Id a, Id b) const {
  return std::pair(nodes_[a].begin(), a) < std::pair(nodes_[b].begin(), b);
}

void AccessIndex::update(Id id) {
  Node& node = nodes_[id];
  node.limit = node.end();
  if (node.left != kNone) node.limit = std::max(node.limit, nodes_[node.left].limit);
  if (node.right != kNone) node.limit = std::max(node.limit, nodes_[node.right].limit);
}

// Cuts a tree into the nodes before `at` and the others.
void AccessIndex::split(Id tree, Id at, Id& before, Id& after) {
  if (tree == kNone) {
    before = after = kNone;
  } else if (comes_before(tree, at)) {
    before = tree;
    split(nodes_[tree].right, at, nodes_[tree].right, after);
    update(tree);
  } else {
    after = tree;
    split(nodes_[tree].left, at, before, nodes_[tree].left);
    update(tree);
  }
}

AccessIndex::Id AccessIndex::join(Id before, Id after) {
  if (before == kNone) return after;
  if (after == kNone) return before;
  if (make_priority(before) > make_priority(after)) {
    nodes_[before].right = join(nodes_[before].right, after);
    update(before);
    return before;
  }
  nodes_[after].left = join(before, nodes_[after].left);
  update(after);
  return after;
}

void AccessIndex::take_out(Id& tree, Id id) {
  if (tree == id) {
    tree = join(nodes_[id].left, nodes_[id].right);
    return;
  }
  const Id root = tree;
  take_out(comes_before(id, root) ? nodes_[root].left : nodes_[root].right, id);
  update(root);
}

}  // namespace kernbench::sim
