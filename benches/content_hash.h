// A name for contents, to tell whether saved results still belong to what would be computed.

#pragma once

#include <cstdint>
#include <string_view>

namespace kernbench::benches {

// 64 bits.  Not against forgery: against what is stale or damaged.
std::uint64_t content_hash(std::string_view content);

// Of the file of the running program: another build may simulate something else.
// Throws LimitError KB-L004 if the host does not let it be read.
std::uint64_t program_hash();

}  // namespace kernbench::benches
