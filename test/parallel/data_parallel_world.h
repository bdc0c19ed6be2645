// Ranks that train one module, on both backends.

#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/autograd/autograd.h"
#include "runtime/distributed/local_backend.h"
#include "runtime/functional/functional.h"
#include "runtime/nn/layers.h"
#include "runtime/parallel/distributed_data_parallel.h"
#include "runtime/torch/run_ranks.h"
#include "runtime/torch/runtime_context.h"
#include "test/support/error_text.h"
#include "test/support/small_topology.h"

namespace kernbench::test {

using Floats = std::vector<float>;

struct DataParallelWorld {
  const int size;
  RuntimeContext torch;

  explicit DataParallelWorld(int ranks, std::string_view backend = "ahbm",
                             RuntimeOptions options = {}, int cubes = 1)
      : size(ranks), torch(round_topology(SipTopology::ring_1d, ranks, 1, cubes), options) {
    torch.distributed.init_process_group(backend);
  }

  // Each rank on the device of its number.
  void spawn(const std::function<void(int)>& body) { run_on_devices(torch, size, body); }
  // Returns the error of the first rank that fails.
  std::string refusal(const std::function<void(int)>& body) {
    return error_of<SpawnException>([&] { spawn(body); });
  }

  Tensor tensor(const Floats& elements, const Shape& shape,
                const DPPolicy& dp = DPPolicy::on_one_pe()) {
    return torch.tensor(elements, shape, {.dp = dp});
  }
};

// The PEs of a rank that share its rows, and the weights.
struct UsedPes {
  int cubes = 1;
  int pes = 1;

  TensorOptions weights() const { return {.dp = DPPolicy::shared(cubes, pes)}; }
  DPPolicy rows() const { return {Shard::row_wise, Shard::row_wise, cubes, pes}; }
};

inline const TensorOptions kOnOnePe{.dp = DPPolicy::on_one_pe()};

// Sets all parameters to small dyadic numbers: element j of parameter q.
inline void fill_parameters(RuntimeContext& torch, const nn::Module& module) {
  const NoGradGuard no_grad(torch);
  std::int64_t q = 0;
  for (Tensor parameter : module.parameters()) {
    Floats elements;
    for (std::int64_t j = 0; j < parameter.numel(); ++j) {
      elements.push_back(static_cast<float>((7 * j + 11 * q + 3) % 17 - 8) / 32);
    }
    parameter.copy_(RuntimeContext::tensor(elements, parameter.shape()));
    ++q;
  }
}

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

// Two layers without a division, the first of `width` features, whose weights are halves: with
// batches of the rows above sums are exact in f32.
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

// Only the links between SIPs and PE_GEMM take time.
inline Topology links_and_gemm() {
  Topology topology = link_topology(SipTopology::ring_1d, 2);
  topology.pe.gemm.rows = topology.pe.gemm.columns = 32;
  topology.pe.gemm.clock = Frequency{1'000'000'000};
  return topology;
}

}  // namespace kernbench::test
