#include "sim_engine/components/memory_order.h"

namespace kernbench::sim {

void MemoryOrder::find(Kernel& kernel, const MemoryUse& use, std::vector<Tile>& hazards) {
  const auto add = [&](AccessIndex::Id id, const ElementRange&) {
    hazards.push_back(noted_[id].command->result);
  };
  index_.visit_overlapping(kernel.writes, use.region, use.elements, add);
  if (use.writes) index_.visit_overlapping(kernel.reads, use.region, use.elements, add);
}

void MemoryOrder::note(Kernel& kernel, const MemoryUse& use, Command& command,
                       AccessIndex::Id& noted) {
  if (use.writes && use.elements.rows == 1) {
    forget_within(kernel.reads, use);
    forget_within(kernel.writes, use);
  }
  noted = index_.add(use.writes ? kernel.writes : kernel.reads, use.region, use.elements);
  if (noted >= noted_.size()) noted_.resize(noted + 1);
  noted_[noted] = {&command, &noted};
}

void MemoryOrder::forget_within(AccessIndex::Set& set, const MemoryUse& use) {
  within_.clear();
  index_.visit_overlapping(
      set, use.region, use.elements, [&](AccessIndex::Id id, const ElementRange& earlier) {
        const bool is_within =
            earlier.begin >= use.elements.begin && earlier.end() <= use.elements.end();
        if (is_within) within_.push_back(id);
      });
  for (const AccessIndex::Id id : within_) {
    *noted_[id].id = AccessIndex::kNone;
    index_.remove(set, id);
  }
}

void MemoryOrder::forget(Kernel& kernel, bool writes, AccessIndex::Id noted) {
  if (noted != AccessIndex::kNone) index_.remove(writes ? kernel.writes : kernel.reads, noted);
}

}  // namespace kernbench::sim
