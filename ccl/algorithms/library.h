// The library's algorithms.

#pragma once

#include "ccl/algorithms/chain.h"
#include "ccl/algorithms/closed_form.h"
#include "ccl/algorithms/direct.h"
#include "ccl/algorithms/disjoint_trees.h"
#include "ccl/algorithms/grid.h"
#include "ccl/algorithms/hello_send.h"
#include "ccl/algorithms/over_cubes.h"
#include "ccl/algorithms/pairs.h"
#include "ccl/algorithms/ring.h"
#include "ccl/algorithms/swing.h"
#include "ccl/algorithms/tree.h"
#include "ccl/core/algorithm.h"

namespace kernbench::ccl {

inline constexpr std::array kLibrary = {
    Algorithm{
        .name = "intercube_allreduce",
        .plan = plan_grid,
        .summary = "reduce to the centre cube, exchange the shortest ways round rows and "
                   "columns of SIPs, broadcast back",
        .neighbours = Neighbours::grid,
        .reduces_in_sip = true,
        .suits_auto = true,
        .closed_form = grid_closed_form,
        .form =
            "tree 2 h (a + m), then a line 2 (P - 1) (a + n/P b), an odd ring (P - 1) (a + n/P b)"},
    Algorithm{.name = "ring_allreduce",
              .plan = plan_ring,
              .summary = "reduce-scatter and all-gather one way round a ring",
              .reduces_in_sip = true,
              .suits_auto = true,
              .closed_form = ring_closed_form,
              .form = "2 (P - 1) a + 2 (P - 1)/P n b"},
    Algorithm{.name = "bidirectional_ring_allreduce",
              .plan = plan_both_rings,
              .summary = "the same with half of the data each way round",
              .reduces_in_sip = true,
              .suits_auto = true,
              .closed_form = both_rings_closed_form,
              .form = "2 (P - 1) a + (P - 1)/P n b"},
    Algorithm{.name = "mesh_allreduce",
              .plan = plan_mesh,
              .summary = "reduce-scatter and all-gather along lines, rows and columns at once",
              .neighbours = Neighbours::grid,
              .reduces_in_sip = true,
              .suits_auto = true,
              .closed_form = mesh_closed_form,
              .form = "a line 2 (P - 1) (a + n/P b)"},
    Algorithm{.name = "tree_allreduce",
              .plan = plan_tree,
              .summary = "up a tree to its root, and down again",
              .neighbours = Neighbours::tree,
              .reduces_in_sip = true,
              .suits_auto = true,
              .closed_form = tree_closed_form,
              .form = "2 h (a + n b); rank = PE: 2 log2(P) (a + n b)"},
    kHelloSend,
    Algorithm{.name = "direct_allreduce",
              .plan = plan_direct,
              .summary = "reduce-scatter and all-gather straight to each SIP and from it",
              .reduces_in_sip = true,
              .suits_auto = true,
              .network = Network::joins_all,
              .closed_form = direct_closed_form,
              .form = "full_mesh 3 a + 2 n/P b, switch 3 a + 2 (P - 1)/P n b"},
    Algorithm{.name = "switch_allreduce",
              .plan = plan_through_switch,
              .summary = "the switch between SIPs adds up, and sends the sums to all",
              .reduces_in_sip = true,
              .suits_auto = true,
              .network = Network::adds_up,
              .closed_form = switch_closed_form,
              .form = "2 a + 2 n b + n s, with s per byte that the switch adds up",
              .shapes = "any group behind a switch that adds up"},
    Algorithm{
        .name = "swing_allreduce",
        .plan = plan_swing,
        .summary = "exchanges with members 1, 1, 3, 5, 11 ... away; neighbours exchange halves",
        .neighbours = Neighbours::grid,
        .reduces_in_sip = true,
        .suits_auto = true,
        .shapes = "grids whose sides are powers of two",
        .misfit = misfit_of_swing},
    Algorithm{.name = "swing_whole_allreduce",
              .plan = plan_swing_whole,
              .summary = "the same, and all exchange the whole",
              .neighbours = Neighbours::grid,
              .reduces_in_sip = true,
              .suits_auto = true,
              .closed_form = swing_closed_form,
              .form = "a ring of 4: 2 (a + n b/2), a torus of 4 x 4: 4 (a + n b/4)",
              .shapes = "grids whose sides are powers of two",
              .misfit = misfit_of_swing},
    Algorithm{.name = "torus",
              .plan = plan_grid,
              .collective = "all_gather, reduce_scatter",
              .summary = "the shortest ways round rows and columns at once",
              .suits_auto = true},
    Algorithm{.name = "ring",
              .plan = plan_ring,
              .collective = "all_gather, reduce_scatter",
              .summary = "one way round a ring",
              .suits_auto = true},
    Algorithm{.name = "direct",
              .plan = plan_direct,
              .collective = "all_gather, reduce_scatter",
              .summary = "straight from each giver to each taker",
              .suits_auto = true,
              .network = Network::joins_all},
    Algorithm{.name = "chain",
              .plan = plan_chain,
              .collective = "broadcast, reduce",
              .summary = "along the ring both ways from the root",
              .suits_auto = true},
    Algorithm{.name = "half_chains",
              .plan = plan_half_chains,
              .collective = "broadcast, reduce",
              .summary = "half of the data each way round the ring",
              .suits_auto = true},
    Algorithm{.name = "disjoint_trees",
              .plan = plan_disjoint_trees,
              .collective = "broadcast, reduce",
              .summary = "a part of the data over each of several trees that share no link",
              .suits_auto = true},
    Algorithm{.name = "pairs",
              .plan = plan_pairs,
              .collective = "all_to_all, gather, scatter",
              .summary = "straight from each giver to each taker",
              .suits_auto = true},
};

}  // namespace kernbench::ccl
