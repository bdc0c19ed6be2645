// Reductions of normally distributed numbers.

#pragma once

#include <cstdint>
#include <vector>

#include "runtime/random/generator.h"
#include "runtime/torch/run_ranks.h"
#include "runtime/torch/runtime_context.h"
#include "sim_engine/values/element_format.h"

namespace kernbench::test {

using Floats = std::vector<float>;

// The n-th normally distributed number of a summand.
inline float drawn(int summand, std::int64_t n, DType dtype) {
  return sim::round_to(dtype, random::Draw(7, static_cast<std::uint64_t>(summand)).normal(n));
}

enum class Sum : std::uint8_t { all_reduce, reduce, reduce_scatter };

// The sums of tensors in which the elements from `first` on are always the same.
inline Floats sums_of(RuntimeContext& torch, int ranks, Sum by, std::int64_t first,
                      std::int64_t count, Reproducible level) {
  Floats sums;
  run_on_devices(torch, ranks, [&](int rank) {
    const std::int64_t n = first + count;
    const std::int64_t blocks = by == Sum::reduce_scatter ? ranks : 1;
    Floats values;
    for (std::int64_t i = 0; i < n * blocks; ++i) {
      values.push_back(drawn(rank, i % n < first ? 1'000 + i : i % n - first, DType::f32));
    }
    Tensor x = torch.empty({n * blocks}, {.dtype = DType::f32, .dp = DPPolicy::on_one_pe()});
    x.copy_(RuntimeContext::tensor(values, x.shape()));
    Tensor result = x;
    switch (by) {
      case Sum::all_reduce:
        torch.distributed.all_reduce(x, {.reproducible = level});
        break;
      case Sum::reduce:
        torch.distributed.reduce(x, 1, {.reproducible = level});
        break;
      case Sum::reduce_scatter:
        result = torch.empty({n}, {.dtype = DType::f32, .dp = DPPolicy::on_one_pe()});
        torch.distributed.reduce_scatter_tensor(result, x, {.reproducible = level});
        break;
    }
    if (rank != (by == Sum::reduce ? 1 : first % ranks)) return;  // all blocks are alike
    const Floats all = result.to_vector<float>();
    sums.assign(all.begin() + first, all.end());
  });
  return sums;
}

}  // namespace kernbench::test
