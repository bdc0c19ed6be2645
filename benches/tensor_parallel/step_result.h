// The result of a training step: times, communication, rates, and its rows.

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "benches/bench/row.h"
#include "benches/tensor_parallel/step_check.h"
#include "benches/tensor_parallel/training_step.h"

namespace kernbench::benches::tensor_parallel {

// Collectives of one function, algorithm and size of one step, on one rank.
struct CollectiveUse {
  std::string function;  // of torch.distributed
  std::string algorithm;
  Bytes size = 0;  // as nccl-tests counts it: gathers and scatters: of all ranks
  std::int64_t count = 0;
  Time time{0};  // the sum over them, each from its begin
};

// The result of the slowest rank.
struct StepResult {
  int world_size = 1;
  std::string system = {};  // "4 SIPs in a ring, 4 x 4 cubes of 8 PEs each"
  int pes = 1;              // PEs of each device that share the rank's part
  int sip_pes = 1;          // PEs that a device has
  Time forward{0};
  Time backward{0};
  runtime::DeviceActivity activity;
  std::vector<CollectiveUse> collectives;
  double flops = 0;                   // of all ranks
  std::optional<double> peak_tflops;  // of the arrays of a device's PEs that take part
  Time bound{0};
  std::optional<StepCheck> check;

  Time step() const { return forward + backward; }
  double tflops_per_device() const;
};

// `forward_flops`: 2 m n k over all matrix products of forward, of all ranks; backward has twice as
// many, for the gradients of both factors.
// Throws InternalError if the step is faster than its lower bound: in forward, the time of the
// products on the PEs' arrays plus that of the collectives over the links, since they wait for one
// another; in backward, the longer of the two.
StepResult summarize(const Topology& topology, std::span<const RankStep> ranks,
                     double forward_flops, int pes);

// A row "step", then one for each of its collectives.
//   step        table, tp, world_size, system, pes, sip_pes, forward_ns, backward_ns, step_ns,
//               compute_ns, communication_ns, exposed_ns, idle_ns, flops, tflops_per_sip,
//               utilization_of_pes, bound_ns, wrong, unequal, checked, worst_error, error,
//               error_bound
//   collective  table, tp, world_size, system, collective, algorithm, size_bytes, count, time_ns,
//               busbw_gbs (null at tp 1)
// utilization_of_pes is the share of the peak of the arrays of `pes` PEs, of `sip_pes` that a SIP
// has.
std::vector<Row> to_rows(const StepResult& result);

}  // namespace kernbench::benches::tensor_parallel
