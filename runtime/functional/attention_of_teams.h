// The backward pass of attention by teams of PEs, which computes each score once.

#pragma once

#include "runtime/functional/attention_parts.h"
#include "runtime/functional/attention_teams.h"
#include "runtime/functional/packed_attention.h"

namespace kernbench::ops {

// Each member of a team has an equal part of a head's keys, whose gradients it sums in scratch, and
// all go through the rows of the query together (FlashAttention-2's loops, arXiv 2307.08691).  A
// member's part of a row's gradient goes to the member that sums that row, by a queue, where
// FlashAttention-2 adds to global memory.
// Keys are dealt out in stripes, so that of a causal sequence all members see as many.
void attend_backward_in_teams(const PackedAttention& attention, const BackwardParts& parts,
                              AttentionTeams teams);

}  // namespace kernbench::ops
