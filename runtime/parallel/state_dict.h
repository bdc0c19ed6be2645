// torch.distributed.checkpoint.state_dict: whole or sharded parameters of a module that fully_shard
// has cut.

#pragma once

#include "runtime/nn/module.h"
#include "runtime/nn/state.h"

namespace kernbench::distributed::checkpoint {

struct StateDictOptions {
  bool full_state_dict = false;  // whole parameters; else this rank's shards, as state_dict() has
  bool strict = true;
};

// Returns the parameters and buffers by their names.  Whole ones are gathered by an all_gather
// each, so all ranks call it.
nn::StateDict get_model_state_dict(const nn::Module& module, const StateDictOptions& options = {});

// Copies values into the parameters and buffers, of whole ones the rows of this rank's shards. Each
// rank calls it with the same whole state, or with its own shards.  Throws CollectiveError KB-A011
// as Module::load_state_dict() does.
nn::IncompatibleKeys set_model_state_dict(nn::Module& module, const nn::StateDict& state,
                                          const StateDictOptions& options = {});

}  // namespace kernbench::distributed::checkpoint
