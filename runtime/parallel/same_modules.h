// Compares the modules of ranks that train one model together, when they wrap it.

#pragma once

#include <source_location>
#include <string>
#include <vector>

#include "runtime/distributed/process_group.h"
#include "runtime/nn/module.h"

namespace kernbench {
class RuntimeContext;
}

namespace kernbench::nn::parallel {

// Throws CollectiveError KB-A015 where the modules of a group's ranks differ in number, order,
// names, shapes or types of parameters, or in which of them require gradients, with the rank and
// the parameter (torch's _verify_param_shape_across_processes); and on a rank that is no member. To
// be called by all ranks of the group.  Ignored parameters may differ.
void check_same_modules(RuntimeContext& torch, const Module& module,
                        const distributed::ProcessGroup& group, std::source_location location,
                        const std::vector<std::string>& ignored = {});

}  // namespace kernbench::nn::parallel
