// The devices of a group's members, which are SIPs, or PEs.

#pragma once

#include <vector>

#include "ccl/core/layout.h"
#include "ccl/core/plan.h"
#include "runtime/distributed/collective.h"
#include "sim_engine/topology/folding.h"
#include "sim_engine/topology/location.h"

namespace kernbench::ccl {

struct GroupDevices {
  std::vector<int> sips;             // by member
  std::vector<sim::PeLocation> pes;  // by member, if members are PEs; else none
  // By member, the one that stands for it; empty: each stands for itself.
  std::vector<int> stand_ins = {};

  // The devices of a group of these ranks.  Throws CollectiveMismatchError KB-C026 if a rank that
  // stands for a member is none itself.
  static GroupDevices of(const Layout& layout, const std::vector<int>& ranks,
                         const sim::Folding& folding);
  // The ends of a message, which is an all_to_all in which only they have a block.
  static GroupDevices of(const distributed::Block& source, const distributed::Block& target);

  bool are_pes() const { return !pes.empty(); }
  int stand_in(int member) const {
    return stand_ins.empty() ? member : stand_ins[static_cast<std::size_t>(member)];
  }
  // Returns the number of members that stand for themselves; 1 of PEs, for which a driver stands.
  int count_callers() const;
  GroupShape shape(const Topology& topology) const;
};

}  // namespace kernbench::ccl
