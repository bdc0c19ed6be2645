// How layers get their first weights (megatron.core.utils, and layers with use_cpu_initialization).

#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "runtime/context/runtime_context.h"
#include "tp/generator.h"
#include "tp/parameter.h"

namespace kernbench::tp {

// The elements of a whole weight of this shape, row by row, drawn from a generator.
using InitMethod = std::function<std::vector<float>(const Shape& shape, Generator& generator)>;

// Of mean 0 and standard deviation sigma.
InitMethod init_method_normal(double sigma);
// Likewise, with sigma / sqrt(2 num_layers): for what is added to the residual stream.
InitMethod scaled_init_method_normal(double sigma, int num_layers);
// Between -bound and bound with bound = sqrt(6 / (rows + columns)), for a matrix.
InitMethod xavier_uniform();
// The same number everywhere.
InitMethod init_method_constant(double value);

// A part of a whole weight: its `partition_dim` (0 or 1 of a matrix, 0 of a vector) is cut in
// world_size * stride chunks, of which rank r has r, r + world_size, ...
struct WeightPartition {
  int dim = 0;
  int rank = 0;
  int world_size = 1;
  int stride = 1;
};

// How a weight is made.
struct WeightOptions {
  DType dtype = DType::f16;
  DPPolicy dp = DPPolicy::replicated();
  std::string name = {};
  bool perform_initialization = true;  // else its elements are NaN until they are written
};

// The rank's part of a weight of shape `whole`, which requires a gradient.  Every rank draws the
// whole from its default generator (random.h) and keeps its part: if ranks' generators are equal,
// the weights do not depend on how many ranks share them, bit for bit (ADR-0134).  In no simulated
// time.
// Throws CollectiveError KB-T001 if the dimension cannot be cut so.
Parameter make_weight(RuntimeContext& torch, const Shape& whole, const WeightPartition& partition,
                      const InitMethod& init_method, const WeightOptions& options);

// The same with all elements 0, as biases begin; nothing is drawn.
Parameter make_bias(RuntimeContext& torch, const Shape& whole, const WeightPartition& partition,
                    const WeightOptions& options);

// [rows, columns] cut along one of them, on the first PEs of a device (ADR-0026).
DPPolicy policy_over_pes(Shard shard, int num_cubes, int num_pes);

}  // namespace kernbench::tp
