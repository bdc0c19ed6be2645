// Who may touch which elements: each holder has a range of the elements of one memory.
//
// What a holder excludes is the policy of its user: accesses of kernels are ordered by the clock
// (AccessTracker, MemoryOrder), operations of the host and streams by the program (data under way,
// StreamRaces).  All of them find the holders of given elements in an AccessIndex.

#pragma once

#include <utility>
#include <vector>

#include "sim_engine/values/access_index.h"

namespace kernbench::sim {

template <class Holder>
class ElementLeases {
 public:
  bool empty() const { return held_.empty(); }

  void add(const ElementRange& elements, Holder holder) {
    const AccessIndex::Id id = index_.add(held_, {}, elements);
    if (id >= holders_.size()) holders_.resize(id + 1);
    holders_[id] = std::move(holder);
  }

  // Calls visit(const Holder&, const ElementRange&) for each holder of some of the elements.
  // `visit` must change no lease.
  template <class Visit>
  void visit_overlapping(const ElementRange& elements, Visit visit) const {
    index_.visit_overlapping(held_, {}, elements,
                             [&](AccessIndex::Id id, const ElementRange& its_elements) {
                               visit(holders_[id], its_elements);
                             });
  }

  // Ends the leases of some of the elements for which the predicate, called like `visit`, is true.
  template <class Predicate>
  void erase_if(const ElementRange& elements, Predicate predicate) {
    std::vector<AccessIndex::Id> ended;
    index_.visit_overlapping(held_, {}, elements,
                             [&](AccessIndex::Id id, const ElementRange& its_elements) {
                               if (predicate(holders_[id], its_elements)) ended.push_back(id);
                             });
    for (const AccessIndex::Id id : ended) {
      index_.remove(held_, id);
      holders_[id] = {};
    }
  }

 private:
  // A search sorts in what was added since the last one.
  mutable AccessIndex index_;
  mutable AccessIndex::Set held_;
  std::vector<Holder> holders_;  // by the index's id
};

}  // namespace kernbench::sim
