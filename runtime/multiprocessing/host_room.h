#pragma once

namespace kernbench::multiprocessing {

// Throws LimitError KB-L001 for more ranks than the host has memory for: they would fill it before
// anything else could be said.
void check_has_room(int nprocs);

}  // namespace kernbench::multiprocessing
