// Layers that ranks shard.

#pragma once

#include "runtime/parallel/fully_shard.h"
#include "test/parallel/data_parallel_world.h"

namespace kernbench::test {

using distributed::fsdp::FSDPModule;
using distributed::fsdp::fully_shard;
using distributed::fsdp::FullyShardOptions;

// A group for each inner module that has parameters, and one for what is left.
inline FSDPModule shard_layers(const nn::Sequential& model, const FullyShardOptions& inner = {},
                               const FullyShardOptions& root = {}) {
  for (const auto& layer : model->children()) {
    if (!layer->parameters().empty()) fully_shard(*layer, inner);
  }
  return fully_shard(model, root);
}

}  // namespace kernbench::test
