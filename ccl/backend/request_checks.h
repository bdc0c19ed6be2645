// Checks that a backend makes on the tensors of a collective before it plans it.

#pragma once

#include <string_view>
#include <vector>

#include "runtime/distributed/collective.h"

namespace kernbench::ccl {

// Throws CollectiveError KB-C013 if a tensor lies on several SIPs, or if only a part of a partial
// tensor is written: the whole becomes replicated.
void check_blocks(const distributed::CollectiveCall& request);

// The tensors that were written hold the result on all holders.
void mark_replicated(const std::vector<distributed::Block>& takes);

// The same where the members are PEs, for which one driver calls: KB-C023 for what a single call
// cannot say for all of them.
void check_for_pes(const distributed::CollectiveCall& request, int pes);
[[noreturn]] void refuse_for_pes(std::string_view what, int pes);

}  // namespace kernbench::ccl
