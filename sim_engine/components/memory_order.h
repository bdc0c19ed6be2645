// The order of a kernel's accesses to memory: a load waits for stores, and a store for loads and
// stores, that the kernel issued before it and that touch the same elements.

#pragma once

#include <vector>

#include "sim_engine/components/command.h"
#include "sim_engine/values/access_index.h"

namespace kernbench::sim {

// The accesses under way of all kernels of a machine.
class MemoryOrder {
 public:
  // The accesses of one kernel.
  // REQUIRES: it is empty when it is destroyed, or clear() has forgotten it
  struct Kernel {
    AccessIndex::Set reads;
    AccessIndex::Set writes;

    bool empty() const { return reads.empty() && writes.empty(); }
  };

  // Adds what an access has to wait for to `hazards`.
  void find(Kernel& kernel, const MemoryUse& use, std::vector<Tile>& hazards);

  // An access of a command is under way from now on.  Earlier accesses whose elements it all
  // overwrites are forgotten: it waits for them, so later ones need only wait for it.  `noted` is
  // part of the command: the access's id as long as it is not forgotten, else kNone.
  void note(Kernel& kernel, const MemoryUse& use, Command& command, AccessIndex::Id& noted);

  // The access has ended.
  void forget(Kernel& kernel, bool writes, AccessIndex::Id noted);

  // Forgets all accesses, after a run that failed.
  void clear() { index_ = {}; }

 private:
  struct Noted {
    Command* command = nullptr;  // its result is ready when the access has ended
    AccessIndex::Id* id = nullptr;
  };

  void forget_within(AccessIndex::Set& set, const MemoryUse& use);

  AccessIndex index_;
  std::vector<Noted> noted_;  // by the index's id
  std::vector<AccessIndex::Id> within_;
};

}  // namespace kernbench::sim
