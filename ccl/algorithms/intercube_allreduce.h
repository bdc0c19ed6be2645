// All-reduce over SIPs whose tensors lie on several cubes (ADR-0032).
//
//   1. PEs:    a leader adds its siblings' summands, straight from their HBM         (pe partial)
//   2. cubes:  reduce along the tree to the centre cube, from both sides at once     (cube partial)
//   3. SIPs:   sip_exchange() on the centre cube, or on every cube that has its own shard
//   4. cubes:  broadcast back along the tree                                (cube partial,
//   replicate)
//   5. PEs:    the leader writes its siblings' copies                       (pe partial, replicate)
//
// Every PE whose shard differs from the others' is a lane of its own through all of that.
//
// Steps (w x h cubes):   2 (floor(w/2) + floor(h/2)) between cubes, plus those of sip_exchange()
// Bytes of n per cube:   n over each used UCIe link each way, plus those of sip_exchange()
// Best for:              summands on many cubes; the links between SIPs carry each byte once

#pragma once

#include "ccl/algorithm.h"

namespace kernbench::ccl {

void intercube_allreduce(tl::Context& tl, const KernelArgs& args);

}  // namespace kernbench::ccl
