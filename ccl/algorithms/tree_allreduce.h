// All-reduce up a tree to its root; then the sum travels down again.
//
// Over SIPs the tree follows the grid to its centre: 2 (floor(w/2) + floor(h/2)) steps.  With rank
// = PE it is the binomial tree: 2 ceil(log2 P) steps.
//
// Bytes sent by each:    n up; n to each child down
// Time:                  centre-root 2 h (alpha + m) + (k - 1) m, for k pieces of m = n/k beta that
//                        follow each other, and, for h > 1, as much more as (k - 1) m exceeds
//                        2 (alpha + m): who passes summands up does not pass sums down before the
//                        last of them; binomial 2 log2(P) (alpha + n beta)
// Best for:              small tensors: the fewest steps
// Source:                TIMING.md 3.2: "chain pipelined", "mesh, centre-root tree", "binomial
// tree"
//
// Every participant ends with a copy of the root's sum, so all have the same bits.

#pragma once

#include "ccl/algorithm.h"

namespace kernbench::ccl {

void tree_allreduce(tl::Context& tl, const KernelArgs& args);

// Returns nullopt if messages share links, pieces differ in size, there are several segments, or
// credits run out; for a binomial tree also unless P = 2^k or 2^k - 1.
std::optional<Time> tree_closed_form(const CollectiveCase& collective);

inline constexpr Algorithm kTreeAllReduce{
    .name = "tree_allreduce",
    .kernel = tree_allreduce,
    .summary = "up a tree to its root, and down again",
    .neighbours = Neighbours::tree,
    .reduces_in_sip = true,
    .suits_auto = true,
    .closed_form = tree_closed_form,
    .form =
        "2 h (a + m) + (k - 1) m + max(0, (k - 1) m - 2 (a + m)), m = n/k b; rank = PE: "
        "2 log2(P) (a + n b)"};

}  // namespace kernbench::ccl
