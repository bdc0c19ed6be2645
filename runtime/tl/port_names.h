// The names that a kernel's code has for neighbours, where they are not those of its PE.

#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "sim_engine/topology/location.h"

namespace kernbench::tl {

// Pairs of a kernel's port and the PE's; a port that is not among them is the PE's own.  There are
// a few, so they are searched one by one.
class PortNames {
 public:
  void add(sim::Port of_kernel, sim::Port of_pe) { names_.emplace_back(of_kernel, of_pe); }

  // Returns nullptr if the kernel's port has no other name.
  const sim::Port* find(sim::Port of_kernel) const {
    const auto found = std::ranges::find(names_, of_kernel, &Name::first);
    return found == names_.end() ? nullptr : &found->second;
  }
  // Returns the kernel's name of a PE's port; nullptr if it has none.
  const sim::Port* find_name(sim::Port of_pe) const {
    const auto found = std::ranges::find(names_, of_pe, &Name::second);
    return found == names_.end() ? nullptr : &found->first;
  }

 private:
  using Name = std::pair<sim::Port, sim::Port>;

  std::vector<Name> names_;
};

}  // namespace kernbench::tl
