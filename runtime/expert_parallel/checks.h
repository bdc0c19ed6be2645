// Checks that the layer, the router and the dispatch share.

#pragma once

#include <cstdint>
#include <string_view>

#include "runtime/distributed/process_group.h"

namespace kernbench {
class RuntimeContext;
}

namespace kernbench::moe {

// Returns the number of the group's ranks.  Throws CollectiveError KB-C029, for `user`, if the
// caller is none of them, or if they do not divide the experts.
int check_experts(std::string_view user, const RuntimeContext& torch,
                  const distributed::ProcessGroup& group, std::int64_t num_experts);

// Throws CollectiveError KB-C029 unless top_k is from 1 to num_experts.
void check_top_k(std::string_view user, std::int64_t top_k, std::int64_t num_experts);

}  // namespace kernbench::moe
