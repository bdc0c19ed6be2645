// One training step of an unsharded model, computed by the host: the reference for the ranks' parts
// (ADR-0135).

#pragma once

#include <cstdint>
#include <vector>

#include "benches/tensor_parallel/expected.h"
#include "sim_engine/base/dtype.h"

namespace kernbench::benches::tensor_parallel {

// A matrix of the whole model; a vector has one row.
struct DenseMatrix {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::vector<float> elements = {};  // row by row
};

// The inputs of a step.
struct DenseModel {
  DenseMatrix x;         // [tokens, hidden]
  DenseMatrix gradient;  // of y
  std::vector<DenseMatrix> parameters;
};

// The results of a step.
struct DenseStep {
  Expected y;
  Expected dx;
  std::vector<Expected> gradients;  // of the parameters
};

struct MlpSize {
  std::int64_t tokens = 0;
  std::int64_t hidden = 0;
  std::int64_t ffn = 0;
};

// y = relu(x A + a) B + b in small integers, so few of them in each column of A and B that sums in
// forward and backward are exact in any order; parameters A, a, B, b.
DenseModel integer_mlp(const MlpSize& size, std::uint64_t seed);

// The exact step: every element must be equal.  Throws UsageError KB-U012 if an element is beyond
// the range in which the type is exact.
DenseStep dense_mlp_step(const DenseModel& model, DType dtype);

struct GptSize {
  std::int64_t sequence = 0;
  std::int64_t hidden = 0;
  std::int64_t heads = 0;
  std::int64_t layers = 1;
};

// Random numbers that every type can represent, with magnitudes as in training: weights with a
// standard deviation of 0.018, x with 1.15.  The parameters are those of GptBlock, for each layer.
DenseModel random_gpt(const GptSize& size, std::uint64_t seed);

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
DenseStep dense_gpt_step(const DenseModel& model, const GptSize& size, const GptDevices& devices,
                         std::uint64_t seed);

}  // namespace kernbench::benches::tensor_parallel
