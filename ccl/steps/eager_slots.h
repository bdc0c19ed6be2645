// The slots that PEs have for eager messages, as MPI calls them: small ones, which go at once
// between any two PEs.  Larger messages wait until their receive is posted (ADR-0173).

#pragma once

#include <vector>

#include "sim_engine/components/machine.h"
#include "sim_engine/topology/location.h"
#include "sim_engine/topology/topology.h"

namespace kernbench::ccl {

// They lie in the SRAM of the receiver's cube, so that no PE has less scratch.  All groups share
// them.  Queues take them in the order in which they are made, and go without where none are left.
class EagerSlots {
 public:
  // The slots of a queue.  Further messages find their receives posted.
  static constexpr int kDepth = 2;

  // Sets memory aside for every PE, until Machine::disconnect_all(): for 64 queues, or for as many
  // as an eighth of the SRAM holds.  `largest` is the bytes of the largest eager message; with 0
  // there are none.
  EagerSlots(sim::Machine& machine, Bytes largest);

  // Takes the slots of a queue to this PE.  Returns false if none are left.
  bool take(const sim::PeLocation& receiver);
  void give_back(const sim::PeLocation& receiver);
  // Sets the slots of a queue that has them.
  void set(sim::IpcqParams& params) const;

 private:
  int& free_at(const sim::PeLocation& receiver);

  const Topology& topology_;
  const Bytes largest_;
  std::vector<int> free_;  // by number of the PE: queues that may still have slots
};

}  // namespace kernbench::ccl
