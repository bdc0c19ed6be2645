// Finds tensors of one collective that lie in the same memory: an output in an input, or in
// another output.  Operations under way beside the collective are checked elsewhere
// (runtime/tensor/data_under_way.h).

#pragma once

#include <string_view>
#include <vector>

#include "runtime/distributed/backend.h"
#include "runtime/distributed/collective.h"

namespace kernbench::distributed {

// Throws CollectiveError KB-C020, which names both, if two outputs of a list have elements in
// common: their values would be undefined.  `list` is the name of the argument.
void check_are_apart(std::string_view function, std::string_view list,
                     const std::vector<Block>& outputs);

// Returns PyTorch's name for the argument that lists the outputs of such a collective.
std::string_view output_list_name(CollectiveKind kind);

// Runs the call.  If an output lies in the memory of an input, and the collective does not work
// in place anyway, it runs on snapshots of its inputs: all inputs are read before any of them is
// overwritten.
void run_on_snapshots_if_aliased(Communicator& communicator, const CollectiveCall& call);

}  // namespace kernbench::distributed
