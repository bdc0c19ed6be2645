// All-reduce on a ring through all participants: reduce-scatter, then all-gather.
//
// Steps:                 2 (P - 1)
// Bytes sent by each:    2 (P - 1)/P n
// Time:                  2 (P - 1) alpha + 2 (P - 1)/P n beta; in both directions at once, on links
//                        of their own, 2 (P - 1) alpha + (P - 1)/P n beta
// Best for:              large tensors: every participant sends and receives all the time
// Source:                Patarasuk and Yuan, JPDC 69 (2009); TIMING.md 3.2
//
// Each chunk is summed along the ring, so that it ends complete on one participant, and is then
// copied, so all end with the same bits.

#pragma once

#include "ccl/algorithm.h"

namespace kernbench::ccl {

void ring_allreduce(tl::Context& tl, const KernelArgs& args);

// Half of the chunks travel in the opposite direction.
void bidirectional_ring_allreduce(tl::Context& tl, const KernelArgs& args);

// Return nullopt if messages share links, chunks differ in size, there are several segments, or
// credits run out.
std::optional<Time> ring_closed_form(const CollectiveCase& collective);
std::optional<Time> bidirectional_ring_closed_form(const CollectiveCase& collective);

inline constexpr Algorithm kRingAllReduce{
    .name = "ring_allreduce",
    .kernel = ring_allreduce,
    .summary = "reduce-scatter and all-gather one way round a ring",
    .neighbours = Neighbours::ring,
    .reduces_in_sip = true,
    .suits_auto = true,
    .closed_form = ring_closed_form,
    .form = "2 (P - 1) a + 2 (P - 1)/P n b, less where a chunk is several messages that overlap"};

inline constexpr Algorithm kBidirectionalRingAllReduce{
    .name = "bidirectional_ring_allreduce",
    .kernel = bidirectional_ring_allreduce,
    .summary = "the same with half of the data each way round",
    .neighbours = Neighbours::ring,
    .reduces_in_sip = true,
    .suits_auto = true,
    .closed_form = bidirectional_ring_closed_form,
    .form = "2 (P - 1) a + (P - 1)/P n b, less where a chunk is several messages that overlap"};

}  // namespace kernbench::ccl
