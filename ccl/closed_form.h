// What an algorithm takes when nothing costs time but links (TIMING.md 3.2).

#pragma once

#include <optional>

#include "ccl/algorithm.h"

namespace kernbench::ccl {

// intercube_allreduce from the moment at which its kernels begin: up the tree over cubes in the
// chunks of sip_exchange(), which follow each other, through the SIPs and down again.  alpha is the
// latency of the way between neighbours, beta the time per byte at its slowest link.  Ports inside
// a SIP that messages of one PE share are not counted: where they cost time, it takes longer.
//
// nullopt where no form is known: cubes or PEs that hold parts (their messages meet on links),
// chunks that differ in size, several segments, queues whose slots may run out, and no elements.
std::optional<Time> intercube_closed_form(const CollectiveCase& collective);

}  // namespace kernbench::ccl
