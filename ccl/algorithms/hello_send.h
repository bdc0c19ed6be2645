// The smallest collective, as a first example: each participant sends its values to the next one
// in the ring, and ends with those of the previous one.  (It is no all-reduce: torch.distributed
// refuses it.)
//
// Steps:                 1
// Bytes sent by each:    n
// Time:                  alpha + n beta, if n fits into a slot
// Source:                torch.roll over ranks

#pragma once

#include "ccl/core/algorithm.h"

namespace kernbench::ccl {

void hello_send(tl::Context& tl, const KernelArgs& args);

inline constexpr Algorithm kHelloSend{
    .name = "hello_send",
    .kernel = hello_send,
    .collective = "shift",
    .summary = "everyone sends to the next in the ring: where to begin",
    .neighbours = Neighbours::ring,
    .form = "a + n b",
    .shapes = "all ranks"};

}  // namespace kernbench::ccl
