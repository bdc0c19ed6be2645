// Hashes of contents, which tell whether saved results still match what would be computed.

#pragma once

#include <cstdint>
#include <string_view>

namespace kernbench::benches {

// A 64-bit hash.  It detects stale or damaged content, not forgery.
std::uint64_t content_hash(std::string_view content);

// The hash of the running program's file, since another build may simulate differently.  Throws
// LimitError KB-L004 if the host does not let it be read.
std::uint64_t program_hash();

}  // namespace kernbench::benches
