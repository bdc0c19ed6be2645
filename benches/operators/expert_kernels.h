// Finds the expert of each token, inside kernels.

#pragma once

#include "runtime/tl/tl.h"

namespace kernbench::benches::operators {

// For tokens first, first + 1, ...: [rows, experts] f32, 1 where the token is of the expert, else
// 0; or transposed.  A product with it picks each token's row of a parameter, or sums each expert's
// tokens, without a branch on values, which kernels do not have.
// `offsets` are [1, experts + 1] f32, or as many in one dimension.
inline tl::Tensor one_hot(tl::Context& tl, const tl::Tensor& offsets, std::int64_t first,
                          std::int64_t rows, bool is_transposed) {
  const std::int64_t experts = offsets.shape().numel() - 1;
  const tl::Shape along_experts = is_transposed ? tl::Shape{experts, 1} : tl::Shape{1, experts};
  const tl::Shape along_tokens = is_transposed ? tl::Shape{1, rows} : tl::Shape{rows, 1};
  const tl::Tensor all = tl.reshape(offsets, {experts + 1});
  const tl::Tensor begins = tl.reshape(tl.narrow(all, 0, experts), along_experts);
  const tl::Tensor ends = tl.reshape(tl.narrow(all, 1, experts), along_experts);
  const tl::Tensor tokens = tl.reshape(tl.arange(0, rows), along_tokens) + first;
  return (tokens >= begins) * (tokens < ends);
}

}  // namespace kernbench::benches::operators
