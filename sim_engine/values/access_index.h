// AccessIndex finds the accesses under way that touch given elements, without looking at all of
// them.
//
// An access that was added is found by a search, or taken out again, in O(log n).  As long as few
// were added since the last search, adding and removing is O(1): only a search sorts them in, so
// that what nobody searches costs nothing.

#pragma once

#include <compare>
#include <cstdint>
#include <vector>

#include "sim_engine/values/device_buffer.h"
#include "sim_engine/values/element_range.h"

namespace kernbench::sim {

// The storage of any number of sets of accesses.  Nothing is allocated once it has grown.
class AccessIndex {
 public:
  using Id = std::uint32_t;  // of an access, unique among all sets; used again after remove()
  static constexpr Id kNone = 0xffffffff;

  // A set of accesses.  Its members are for AccessIndex alone.
  struct Set {
    Id unsorted = kNone;  // the first of a list
    Id tree = kNone;      // the root of a search tree
    int unsorted_count = 0;

    bool empty() const { return unsorted == kNone && tree == kNone; }
  };

  Id add(Set& set, RegionId region, const ElementRange& elements);
  // REQUIRES: it was added to this set
  void remove(Set& set, Id id);

  // Calls visit(Id, const ElementRange&) for each access of the set that touches some of the
  // elements, in an order that depends on nothing but the calls so far.  `visit` must not change
  // the set.
  template <class Visit>
  void visit_overlapping(Set& set, RegionId region, const ElementRange& elements, Visit visit) {
    if (set.unsorted_count > kFew) sort_in(set);
    const Query query{region, elements, {region, elements.begin}, {region, elements.end()}};
    for (Id id = set.unsorted; id != kNone; id = nodes_[id].right) visit_if(id, query, visit);
    visit_tree(set.tree, query, visit);
  }

 private:
  static constexpr int kFew = 16;

  // An element: places of one region follow each other.
  struct Place {
    std::uint64_t region;
    std::int64_t offset;

    Place(RegionId id, std::int64_t at)
        : region(std::uint64_t{id.index} << 32 | id.generation), offset(at) {}
    friend auto operator<=>(const Place&, const Place&) = default;
  };
  // In the tree, which is a treap: its nodes are ordered by their begin from left to right, and by
  // a random priority from the root down.
  struct Node {
    RegionId region;
    ElementRange elements;
    Id left = kNone;   // in the list: the previous one
    Id right = kNone;  // in the list: the next one; when free: the next free one
    bool is_sorted = false;
    Place limit{{}, 0};  // the largest end in the subtree; in the tree only

    Place begin() const { return {region, elements.begin}; }
    Place end() const { return {region, elements.end()}; }  // behind its last element
  };
  struct Query {
    RegionId region;
    ElementRange elements;
    Place begin;
    Place end;
  };

  template <class Visit>
  void visit_if(Id id, const Query& query, Visit& visit) {
    const Node& node = nodes_[id];
    if (node.region == query.region && overlap(node.elements, query.elements)) {
      visit(id, node.elements);
    }
  }
  template <class Visit>
  void visit_tree(Id id, const Query& query, Visit& visit) {
    if (id == kNone || nodes_[id].limit <= query.begin) return;
    visit_tree(nodes_[id].left, query, visit);
    if (nodes_[id].begin() >= query.end) return;
    visit_if(id, query, visit);
    visit_tree(nodes_[id].right, query, visit);
  }

  bool comes_before(Id a, Id b) const;
  void sort_in(Set& set);
  void unlink(Set& set, Id id);
  void update(Id id);
  void split(Id tree, Id at, Id& before, Id& after);
  Id join(Id before, Id after);
  void take_out(Id& tree, Id id);

  std::vector<Node> nodes_;
  Id free_ = kNone;
};

}  // namespace kernbench::sim
