// Attention over a sequence that ranks share by exchanging tokens for heads.

#pragma once

#include "runtime/context_parallel/ring.h"

namespace kernbench::experimental {

// Each rank has its tokens' rows, contiguous in the sequence, of query, key and value, and gets
// those of the output.  It computes all tokens of its share of the heads.  Throws CollectiveError
// KB-C025 if the ranks do not divide the heads of the key, or sequences differ in length.
Tensor ulysses_attention(const Ring& ring, const ops::PackedAttention& own,
                         const ops::AttentionInputs& inputs);

}  // namespace kernbench::experimental
