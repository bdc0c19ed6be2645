// Warnings for users of the layers, on standard error.

#pragma once

#include <string_view>

#include "runtime/torch/runtime_context.h"

namespace kernbench::tp {

// Warns with KB-T007, in Megatron's words, that a layer's sequence_parallel is off in a group of
// one rank; once per context.
void warn_if_not_sequence_parallel(RuntimeContext& torch, std::string_view layer, int world_size);

// Warns with KB-T008, in Megatron's words, that modules run in another order than that in which
// their parameters were registered, so that gathering them hides less; once per context.
void warn_of_order_of_param_gather(RuntimeContext& torch);

}  // namespace kernbench::tp
