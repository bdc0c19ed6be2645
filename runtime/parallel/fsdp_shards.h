// A shard of fully_shard: a rank's rows of a parameter.

#pragma once

#include <string>

#include "runtime/distributed/process_group.h"
#include "runtime/distributed/shard_spec.h"
#include "runtime/parallel/fsdp_param_group.h"
#include "runtime/parallel/fully_shard.h"
#include "runtime/tensor/tensor.h"

namespace kernbench::distributed::fsdp {

// Throws CollectiveError KB-A020.
[[noreturn]] void refuse(const std::string& text);

// Throws CollectiveError KB-A020 for a parameter that cannot be cut, or not in one call with
// `first`.
void check_parameter(const std::string& name, const Tensor& parameter, const Tensor& first);

// Makes this rank's shard, outside of simulated time, and frees the parameter's elements.
ShardedParameter make_shard(RuntimeContext& torch, const std::string& name, Tensor whole,
                            const ProcessGroup& group, const MixedPrecisionPolicy& policy);

// Returns the whole parameter that ranks have shards of, whose rows PEs share.  All ranks call it.
Tensor gather_rows(RuntimeContext& torch, const Tensor& shard, const ShardSpec& spec);

}  // namespace kernbench::distributed::fsdp
