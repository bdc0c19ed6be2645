// Compares the modules of ranks that train one model together, when they wrap it.

#pragma once

#include <source_location>

#include "runtime/distributed/process_group.h"
#include "runtime/nn/module.h"

namespace kernbench {
class RuntimeContext;
}

namespace kernbench::nn::parallel {

// Throws CollectiveError KB-A015 where the modules of a group's ranks differ in number, order,
// names, shapes or types of parameters, with the rank and the parameter (torch's
// _verify_param_shape_across_processes).  To be called by all ranks of the group.
void check_same_modules(RuntimeContext& torch, const Module& module,
                        const distributed::ProcessGroup& group, std::source_location location);

}  // namespace kernbench::nn::parallel
