#include "tp/product_in_blocks.h"

#include <fmt/format.h>

#include <span>
#include <vector>

#include "runtime/functional/functional.h"
#include "runtime/functional/shape_operators.h"
#include "runtime/ops/reduce.h"
#include "runtime/torch/runtime_context.h"
#include "tp/misuse.h"

namespace kernbench::tp {

namespace {

constexpr int kBlocks = 16;  // over all ranks

Tensor add_in_pairs(std::span<const Tensor> summands) {
  if (summands.size() == 1) return summands.front();
  const std::size_t half = summands.size() / 2;
  return add_in_pairs(summands.first(half)) + add_in_pairs(summands.subspan(half));
}

// of(i) of each block.
template <class Of>
std::vector<Tensor> for_each_block(std::int64_t blocks, const Of& of) {
  std::vector<Tensor> all;
  for (std::size_t i = 0; i < static_cast<std::size_t>(blocks); ++i) all.push_back(of(i));
  return all;
}

}  // namespace

Tensor ProductInBlocks::forward(const Tensor& x, const Tensor& weight, const Tensor& bias) const {
  if (blocks == 1) return addmm(bias, x, weight);
  if (cut == WeightCut::columns) {
    const auto weights = chunk(weight, blocks, 1);
    const auto biases = bias.defined() ? chunk(bias, blocks) : std::vector<Tensor>(weights.size());
    return cat(
        for_each_block(blocks, [&](std::size_t i) { return addmm(biases[i], x, weights[i]); }), -1);
  }
  const auto inputs = chunk(x, blocks, -1);
  const auto weights = chunk(weight, blocks, 0);
  const Tensor y = add_in_pairs(
      for_each_block(blocks, [&](std::size_t i) { return matmul(inputs[i], weights[i]); }));
  return bias.defined() ? y + bias : y;
}

Tensor ProductInBlocks::gradient_of_input(const Tensor& dy, const Tensor& weight) const {
  const MatmulOptions transposed{.transpose_b = true};
  if (blocks == 1) return matmul(dy, weight, transposed);
  if (cut == WeightCut::columns) {
    const auto gradients = chunk(dy, blocks, -1);
    const auto weights = chunk(weight, blocks, 1);
    return add_in_pairs(for_each_block(
        blocks, [&](std::size_t i) { return matmul(gradients[i], weights[i], transposed); }));
  }
  const auto weights = chunk(weight, blocks, 0);
  return cat(
      for_each_block(blocks, [&](std::size_t i) { return matmul(dy, weights[i], transposed); }),
      -1);
}

Tensor ProductInBlocks::gradient_of_weight(const Tensor& x, const Tensor& dy) const {
  const MatmulOptions transposed{.transpose_a = true};
  if (blocks == 1) return matmul(x, dy, transposed);
  if (cut == WeightCut::columns) {
    const auto gradients = chunk(dy, blocks, 1);
    return cat(
        for_each_block(blocks, [&](std::size_t i) { return matmul(x, gradients[i], transposed); }),
        1);
  }
  const auto inputs = chunk(x, blocks, 1);
  return cat(
      for_each_block(blocks, [&](std::size_t i) { return matmul(inputs[i], dy, transposed); }), 0);
}

Tensor ProductInBlocks::gradient_of_bias(const Tensor& dy) const {
  if (blocks == 1 || cut != WeightCut::columns) return ops::sum_of_rows(dy);
  const auto gradients = chunk(dy, blocks, -1);
  return cat(for_each_block(
      blocks, [&](std::size_t i) { return ops::sum_of_rows(contiguous(gradients[i])); }));
}

std::int64_t count_blocks(const RuntimeContext& torch, const distributed::ProcessGroup& group,
                          std::int64_t size, std::string_view what) {
  if (torch.distributed.least_reproducible() != Reproducible::pairs) return 1;
  const int ranks = torch.distributed.get_world_size(group);
  if (kBlocks % ranks == 0 && size % kBlocks == 0) return kBlocks / ranks;
  not_divisible(
      fmt::format("{} {} over {} ranks with Reproducible::pairs: {} blocks are computed, "
                  "which ranks must divide, and which must divide the size",
                  what, size, ranks, kBlocks));
}

std::int64_t count_blocks_of_layer(const RuntimeContext& torch,
                                   const distributed::ProcessGroup& group, std::int64_t size,
                                   std::string_view name, bool sequence_parallel) {
  if (sequence_parallel && torch.distributed.least_reproducible() == Reproducible::pairs) {
    wrong_layer(
        fmt::format("{}: sequence_parallel with Reproducible::pairs: gradients of norms "
                    "would be sums over each rank's own tokens",
                    name));
  }
  return count_blocks(torch, group, size, name);
}

}  // namespace kernbench::tp
