#pragma once

#include "sim_engine/base/units.h"

namespace kernbench::multiprocessing {

// The least of the memory of the machine, of this process, and of its container.
Bytes host_memory();

// Throws LimitError KB-L001 if the host has too little memory for this many ranks.  It is checked
// first, since they would fill the memory before anything else could be reported.
void check_has_room(int nprocs);

}  // namespace kernbench::multiprocessing
