// Runs a KernelSpec on a PE: what a compiler would generate for it.

#pragma once

#include <vector>

#include "benches/operators/fusion.h"
#include "benches/operators/operator_run.h"

namespace kernbench::benches::operators {

// Where a node's value lies in HBM: a tensor, or one of its columns.
struct Place {
  Tensor tensor;
  int column = -1;  // -1: all of them
};
using Places = std::vector<std::vector<Place>>;  // by node

// REQUIRES: what the kernel loads has a place, what it stores has one or more
void launch_graph_kernel(OperatorRun& run, std::string_view name, const KernelSpec& kernel,
                         const Places& places);

// Scratch that a kernel needs: for each row of a block, with what is loaded ahead, and besides.
struct ScratchNeeds {
  Bytes per_row = 0;
  Bytes fixed = 0;
};
ScratchNeeds scratch_needs(const Definition& definition, const KernelSpec& kernel);

}  // namespace kernbench::benches::operators
