// Layers that ranks shard, with weights and batches whose sums are exact in f32.

#pragma once

#include <cstdint>
#include <vector>

#include "runtime/parallel/fully_shard.h"
#include "test/parallel/data_parallel_world.h"

namespace kernbench::test {

using distributed::fsdp::FSDPModule;
using distributed::fsdp::fully_shard;
using distributed::fsdp::FullyShardOptions;

inline constexpr std::int64_t kBatchRows = 16;  // of the whole batch
inline constexpr std::int64_t kBatchColumns = 4;

// Rows of small whole numbers.
inline Floats batch_rows(std::int64_t first, std::int64_t count, int seed) {
  Floats elements;
  for (std::int64_t i = first * kBatchColumns; i < (first + count) * kBatchColumns; ++i) {
    elements.push_back(static_cast<float>((i * 5 + i / 7 * 3 + seed) % 3 - 1));
  }
  return elements;
}

// Two layers without a division, the first of `width` features, whose weights are halves.
inline nn::Sequential two_layers(const RuntimeContext& torch, std::int64_t width,
                                 const TensorOptions& options = kOnOnePe) {
  const nn::Sequential model(nn::Linear(torch, kBatchColumns, width, options), nn::ReLU(),
                             nn::Linear(torch, width, kBatchColumns, options));
  std::int64_t q = 0;
  for (Tensor parameter : model->parameters()) {
    Floats elements;
    for (std::int64_t j = 0; j < parameter.numel(); ++j) {
      elements.push_back(static_cast<float>((7 * j + 11 * q + 3) % 5 - 2) / 2);
    }
    parameter.detach().copy_(RuntimeContext::tensor(elements, parameter.shape()));
    ++q;
  }
  return model;
}

// A group for each inner module that has parameters, and one for what is left.
inline FSDPModule shard_layers(const nn::Sequential& model, const FullyShardOptions& inner = {},
                               const FullyShardOptions& root = {}) {
  for (const auto& layer : model->children()) {
    if (!layer->parameters().empty()) fully_shard(*layer, inner);
  }
  return fully_shard(model, root);
}

}  // namespace kernbench::test
