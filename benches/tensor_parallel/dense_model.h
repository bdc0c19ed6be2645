// The inputs and parameters of a training step, as the unsharded model has them.

#pragma once

#include <cstdint>
#include <vector>

namespace kernbench::benches::tensor_parallel {

// A matrix of the whole model; a vector has one row.
struct DenseMatrix {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::vector<float> elements = {};  // row by row
};

struct DenseModel {
  DenseMatrix x;         // [tokens, hidden]
  DenseMatrix gradient;  // of y
  std::vector<DenseMatrix> parameters;
};

struct MlpSize {
  std::int64_t tokens = 0;
  std::int64_t hidden = 0;
  std::int64_t ffn = 0;
};

// y = relu(x A + a) B + b in small integers, so few of them in each column of A and B that sums in
// forward and backward are exact in any order; parameters A, a, B, b.
DenseModel integer_mlp(const MlpSize& size, std::uint64_t seed);

struct GptSize {
  std::int64_t sequence = 0;
  std::int64_t hidden = 0;
  std::int64_t heads = 0;
  std::int64_t layers = 1;
};

// Random numbers that every type can represent, with magnitudes as in training: weights with a
// standard deviation of 0.018, x with 1.15.  The parameters are those of GptBlock, for each layer.
DenseModel random_gpt(const GptSize& size, std::uint64_t seed);

}  // namespace kernbench::benches::tensor_parallel
