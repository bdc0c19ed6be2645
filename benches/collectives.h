// The bench collectives, for programs that have algorithms of their own, as ccl_allreduce.h.

#pragma once

namespace kernbench::benches {

// Enters it into the program's list.  Called once.
bool register_collectives();

}  // namespace kernbench::benches
