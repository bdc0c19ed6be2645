// megatron.core.optimizer.clip_grads: norms over the ranks that hold a model's parts.

#pragma once

#include <vector>

#include "tp/parameter.h"

namespace kernbench::tp {

// The 2-norm over all ranks of a group: the root of one all_reduce of 4 bytes.  `counted` are the
// gradients that no other rank counts; `any` one that this rank has in any case.  0 in a context
// without data.
double get_grad_norm(RuntimeContext& torch, const std::vector<Tensor>& counted, const Tensor& any,
                     const distributed::ProcessGroup& group);

// Scales the parameters' gradients so that their 2-norm over the model parallel group is at most
// max_norm, and returns what it was: for a model that torch's DistributedDataParallel wraps beside
// tensor parallel layers, or that fully_shard has cut.  A parameter that ranks have in common
// counts once (counts_in_norms()); the ranks of a group first add up the squares of their shards.
// Gradients are scaled only if the norm is larger, as in Megatron.  Throws CollectiveError KB-T006
// if no parameter of this rank has a gradient.
double clip_grad_norm(RuntimeContext& torch, const std::vector<Parameter>& parameters,
                      double max_norm);

}  // namespace kernbench::tp
