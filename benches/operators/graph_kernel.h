// Runs a KernelSpec on a PE, as the code that a compiler would generate for it.

#pragma once

#include <vector>

#include "benches/operators/fusion.h"
#include "benches/operators/operator_run.h"

namespace kernbench::benches::operators {

// The place of a node's value in HBM: a tensor, or one of its columns.
struct Place {
  Tensor tensor;
  int column = -1;  // -1: all of them
};
using Places = std::vector<std::vector<Place>>;  // by node

// REQUIRES: every node that the kernel loads has a place; every node that it stores has at least
// one
void launch_graph_kernel(OperatorRun& run, std::string_view name, const KernelSpec& kernel,
                         const Places& places);

// The scratch that a kernel needs: per row of a block, including the rows loaded ahead, and a fixed
// amount.
struct ScratchNeeds {
  Bytes per_row = 0;
  Bytes fixed = 0;
};
ScratchNeeds scratch_needs(const Definition& definition, const KernelSpec& kernel);

}  // namespace kernbench::benches::operators
