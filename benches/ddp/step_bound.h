// Times that no step, and no bucket of it, can beat (ADR-0225).

#pragma once

#include <vector>

#include "benches/ddp/measured_step.h"
#include "runtime/nn/module.h"
#include "sim_engine/topology/topology.h"

namespace kernbench::benches::ddp {

// When the buckets' collectives can have ended on all ranks at the earliest.  `ready`: when the
// first rank had each bucket.  Links carry what buckets send one after the other,
//
//   S_k = max(R_k, E_k-1)    E_k = S_k + T(n_k)
//
// where T is the network's bound of the collective, in a mesh that of one group alone; of its
// latency only the last one's counts. REQUIRES: all SIPs have as many links, and each is a rank
std::vector<BucketBound> compute_bounds(const Topology& topology, const StepInput& input,
                                        const std::vector<nn::parallel::BucketTimes>& buckets,
                                        const std::vector<Time>& ready);

// The least that the PEs of a rank compute and moves in a step: the products of all linear layers,
// of which the backward pass has two for each; and the bytes that these layers and the optimizer
// read and write in HBM.
struct Work {
  double products = 0;
  double forward = 0;  // of the forward pass alone; `products` has them too
  double bytes = 0;
};
// REQUIRES: the module has its whole parameters
Work count_work(const StepInput& input, nn::Module& module);

// The largest time of: the products in the arrays of the rank's PEs, the bytes in their slices of
// the HBM, and what the buckets send.
Time step_bound(const Topology& topology, const StepInput& input, const Work& work,
                const std::vector<nn::parallel::BucketTimes>& buckets);

}  // namespace kernbench::benches::ddp
