// Whole states of modules that hold tensor parallel layers.

#pragma once

#include "runtime/nn/module.h"
#include "runtime/nn/state.h"
#include "runtime/torch/runtime_context.h"

namespace kernbench::tp {

// Returns the parameters and buffers whole, by their names: gathered over the ranks among which
// fully_shard has cut them, then over the caller's tensor parallel ranks, by an all_gather each.
// All ranks call it.  A file of it fits any number of ranks.
nn::StateDict get_full_state_dict(RuntimeContext& torch, nn::Module& module);

// Copies such a state's values into the parameters and buffers: this rank's part of each.  Throws
// CollectiveError KB-A011 as Module::load_state_dict() does.
nn::IncompatibleKeys set_full_state_dict(RuntimeContext& torch, nn::Module& module,
                                         const nn::StateDict& state,
                                         const nn::LoadOptions& options = {});

}  // namespace kernbench::tp
