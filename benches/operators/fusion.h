// Divides a graph into kernels: one per node, or as few as the graph allows (ADR-0140).

#pragma once

#include <string>
#include <vector>

#include "benches/operators/operator_case.h"

namespace kernbench::benches::operators {

// One kernel launch.  Every PE goes through its rows of tokens block by block; sums over tokens are
// kept in scratch and stored at the end.
struct KernelSpec {
  std::string name;
  std::vector<NodeId> loads;     // from HBM: inputs, and results of earlier kernels
  std::vector<NodeId> computes;  // in their order
  std::vector<NodeId> stores;    // the computed nodes that go to HBM
};

// Kernels in the order of their launches.
struct Plan {
  std::vector<KernelSpec> forward;
  std::vector<KernelSpec> backward;

  std::vector<KernelSpec>& of(Direction direction) {
    return direction == Direction::forward ? forward : backward;
  }
};

// Makes a kernel for each needed node.  Forward stores all its values, and backward loads them.
Plan plan_node_by_node(const Definition& definition);

// Elementwise chains and the row reductions that they feed become one kernel, since a row fits into
// scratch.  Sums over tokens go the other way through memory, so they make a kernel of their own,
// into which the elementwise chains before them are fused once more.  Between kernels, and from
// forward to backward, only values of one column are stored; wider ones are computed again.
Plan plan_fused(const Definition& definition);

}  // namespace kernbench::benches::operators
