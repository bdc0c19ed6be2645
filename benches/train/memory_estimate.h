// An estimate of what a training step keeps in HBM, and of how many layers fit therefore.

#pragma once

#include "benches/train/training.h"
#include "sim_engine/topology/topology.h"

namespace kernbench::benches::train {

// The elements of a model's parameters.
struct ParameterCount {
  double matrices = 0;  // lie once on a device
  double vectors = 0;   // biases and norms, of which each PE has a copy

  double all() const { return matrices + vectors; }
};
ParameterCount count_parameters(ModelKind model, const LanguageModelSize& size);

// The most bytes that a step has in the HBM of a PE at a time: parameters, gradients, masters and
// states of the optimizer, and the activations that autograd keeps for backward.  Left out is what
// falls with the model's size: tokens, losses and numbers of rows.
double estimate_bytes_of_pe(const TrainingOptions& options);

// The values of so many steps cost a core of the host, one of 2023, hours and bytes of memory.
struct HostCost {
  double hours = 0;
  double bytes = 0;

  bool is_high() const;  // more than an hour, or 8 GiB
};
HostCost estimate_host_cost(const TrainingOptions& options, std::int64_t steps);

// The bytes of a slice of HBM for each of these PEs whose slice it is.
double hbm_of_pe(const Topology& topology, const UsedPes& on);

// The largest number of layers, up to `most`, with which the estimate takes at most 95 % of what a
// PE has; 0: none fits.  The rest is for queues, and gaps between blocks of HBM.
std::int64_t count_layers_that_fit(const Topology& topology, TrainingOptions options,
                                   std::int64_t most);

}  // namespace kernbench::benches::train
