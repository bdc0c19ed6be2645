// One training step of an unsharded model, computed by the host with Eigen: what the benches' own
// reference, a step of one rank, is compared with.

#pragma once

#include <cstdint>

#include "benches/tensor_parallel/dense_model.h"
#include "benches/tensor_parallel/single_rank.h"
#include "sim_engine/base/dtype.h"

namespace kernbench::benches::tensor_parallel {

// The exact step of the MLP: every element must be equal.
ExpectedStep dense_mlp_step(const DenseModel& model);

// The arithmetic of the devices.
struct GptDevices {
  DType dtype = DType::f16;
  int ranks = 1;
  int pes = 1;  // of each
  bool sequence_parallel = false;
};

// The number of samples of the devices' results, and the factor from their largest error to the
// bound.
inline constexpr int kSamples = 4;
inline constexpr double kBoundOverSamples = 4;

// The step in double precision.  The bound of a tensor (in the gradients of qkv, of all queries,
// keys or values) is taken from samples: the same step in f32, with sums cut as the devices cut
// them, and the result of each operation rounded to the type, in the first sample to nearest, in
// the others at random.
ExpectedStep dense_gpt_step(const DenseModel& model, const GptSize& size, const GptDevices& devices,
                            std::uint64_t seed);

}  // namespace kernbench::benches::tensor_parallel
