// Attention over a sequence that the ranks of a ring share (Ring Attention, arXiv 2310.01889).

#pragma once

#include "runtime/context_parallel/ring.h"

namespace kernbench::experimental {

// Each rank has its tokens' rows of query, key and value, and gets those of the output.  Keys and
// values come by; what a step computes is added to the output by the logarithms of the sums, in
// f32.  In backward they come by again, and sums of their gradients, in f32, go with them.
Tensor ring_attention(const Ring& ring, const ops::PackedAttention& own,
                      const ops::AttentionInputs& inputs);

}  // namespace kernbench::experimental
