#pragma once

namespace kernbench::multiprocessing {

// Throws LimitError KB-L001 if the host has too little memory for so many ranks.  It is checked
// first, since they would fill the memory before anything else could be reported.
void check_has_room(int nprocs);

}  // namespace kernbench::multiprocessing
