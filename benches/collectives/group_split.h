// Groups of ranks that run a collective at once, as nccl-tests' NCCL_TESTS_SPLIT makes them.

#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kernbench::benches::collectives {

// "mod:8": ranks that are equal modulo 8, 8 groups; "div:8": 8 consecutive ranks each.  Returns the
// members of each group, in ascending order.  Throws UsageError KB-U012 for any other text, and if
// the ranks do not divide into groups of equal size.
std::vector<std::vector<int>> split_ranks(std::string_view text, int ranks);

// "0, 2, 4", and of more than four members "0, 8, ..., 1016".
std::string members_text(std::span<const int> members);

}  // namespace kernbench::benches::collectives
