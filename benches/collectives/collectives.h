// The bench `collectives`, for programs that have algorithms of their own (see ccl_allreduce.h).

#pragma once

namespace kernbench::benches {

// Registers the bench.  Call it once.
bool register_collectives();

}  // namespace kernbench::benches
