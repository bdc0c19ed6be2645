// How much of a plan a kernel keeps in scratch at a time.

#pragma once

#include <cstddef>
#include <cstdint>

#include "ccl/core/plan.h"

namespace kernbench::ccl {

// Returns the most chunks of a slice that a node keeps at a time, while slices follow each other as
// the plan says: messages from the post of their receive on, loads and held values
// from their issue on, and sums until the time behind their own has passed, since then they have
// been sent.  `summands` is the number of summands of a value inside its SIP, which are loaded and
// added one by one.
std::int64_t most_chunks_kept(const Plan& plan, std::size_t summands);

}  // namespace kernbench::ccl
