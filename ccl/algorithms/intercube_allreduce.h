// All-reduce over SIPs whose tensors lie on several cubes (ADR-0032): reduce to the centre cube,
// exchange among the SIPs' centre cubes, broadcast back.
//
// Steps (w x h cubes):   2 (floor(w/2) + floor(h/2)) between cubes, or with `root: corner` in
//                        ccl.yaml 2 (w - 1 + h - 1), plus those of the exchange along the SIPs'
//                        grid (grid_exchange.h)
// Bytes of n per cube:   n over each used UCIe link each way, plus those of the exchange
// Best for:              summands on many cubes; the links between SIPs carry each byte once
// Source:                ADR-0032; TIMING.md 3.2, "hierarchical, root form"

#pragma once

#include "ccl/algorithm.h"

namespace kernbench::ccl {

void intercube_allreduce(tl::Context& tl, const KernelArgs& args);

// Returns nullopt where no closed form is known: cubes or PEs that hold parts (their messages meet
// on links), chunks that differ in size, several segments, queues whose slots may run out, and no
// elements.
std::optional<Time> intercube_closed_form(const CollectiveCase& collective);

inline constexpr Algorithm kIntercubeAllReduce{
    .name = "intercube_allreduce",
    .kernel = intercube_allreduce,
    .summary = "reduce to the centre cube, exchange among SIPs, broadcast back",
    .neighbours = Neighbours::grid,
    .reduces_in_sip = true,
    .suits_auto = true,
    .closed_form = intercube_closed_form,
    .form =
        "tree 2 h (a + m) + 2 (c - 1) m, then 2 (w + h - 2) a + (rings (P - 1)/P, lines "
        "2 (P - 1)/P) n b"};

}  // namespace kernbench::ccl
