#include "tp/product_in_blocks.h"

#include <fmt/format.h>

#include <vector>

#include "runtime/functional/functional.h"
#include "runtime/functional/matmul_across_pes.h"
#include "runtime/functional/shape_operators.h"
#include "runtime/ops/reduce.h"
#include "runtime/torch/runtime_context.h"
#include "sim_engine/base/add_in_pairs.h"
#include "tp/misuse.h"

namespace kernbench::tp {

namespace {

constexpr int kBlocks = 16;  // over all ranks

}  // namespace

template <class Of>
Tensor ProductInBlocks::sum(const Of& of) const {
  return sim::add_in_pairs(
      0, count_, [&](std::int64_t block) { return of(static_cast<std::size_t>(block)); },
      [](const Tensor& left, const Tensor& right) { return left + right; });
}

template <class Of>
Tensor ProductInBlocks::concatenate(int dim, const Of& of) const {
  std::vector<Tensor> parts;
  for (std::size_t i = 0; i < static_cast<std::size_t>(count_); ++i) parts.push_back(of(i));
  return cat(parts, dim);
}

Tensor ProductInBlocks::forward(const Tensor& x, const Tensor& weight, const Tensor& bias) const {
  if (count_ == 1) return addmm(bias, x, weight);
  if (has_columns_) {
    const auto weights = chunk(weight, count_, 1);
    const auto biases = bias.defined() ? chunk(bias, count_) : std::vector<Tensor>(weights.size());
    return concatenate(-1, [&](std::size_t i) { return addmm(biases[i], x, weights[i]); });
  }
  const auto inputs = chunk(x, count_, -1);
  const auto weights = chunk(weight, count_, 0);
  return sum([&](std::size_t i) { return matmul(inputs[i], weights[i]); });
}

Tensor ProductInBlocks::gradient_of_input(const Tensor& dy, const Tensor& weight) const {
  const MatmulOptions transposed{.transpose_b = true};
  if (count_ == 1) return matmul(dy, weight, transposed);
  const auto weights = chunk(weight, count_, has_columns_ ? 1 : 0);
  if (!has_columns_) {
    return concatenate(-1, [&](std::size_t i) { return matmul(dy, weights[i], transposed); });
  }
  const auto gradients = chunk(dy, count_, -1);
  return sum([&](std::size_t i) { return matmul(gradients[i], weights[i], transposed); });
}

Tensor ProductInBlocks::gradient_of_weight(const Tensor& x, const Tensor& dy,
                                           const ops::Placement& weight) const {
  if (count_ == 1) return ops::gradient_of_factor(x, dy, weight);
  const MatmulOptions transposed{.transpose_a = true};
  const auto parts = chunk(has_columns_ ? dy : x, count_, 1);
  return concatenate(has_columns_ ? 1 : 0, [&](std::size_t i) {
    return has_columns_ ? matmul(x, parts[i], transposed) : matmul(parts[i], dy, transposed);
  });
}

Tensor ProductInBlocks::gradient_of_bias(const Tensor& dy) const {
  if (count_ == 1 || !has_columns_) return ops::sum_of_rows(dy);
  const auto gradients = chunk(dy, count_, -1);
  return concatenate(0, [&](std::size_t i) { return ops::sum_of_rows(contiguous(gradients[i])); });
}

std::int64_t count_blocks(const RuntimeContext& torch, const distributed::ProcessGroup& group,
                          std::int64_t size, std::string_view what) {
  if (torch.distributed.least_reproducible() != Reproducible::pairs) return 1;
  const int ranks = torch.distributed.get_world_size(group);
  if (kBlocks % ranks == 0 && size % kBlocks == 0) return kBlocks / ranks;
  not_divisible(fmt::format(
      "{}: {} over {} ranks; with Reproducible::pairs multiples of {} are wanted, and 1, "
      "2, 4, 8 or 16 ranks",
      what, size, ranks, kBlocks));
}

void refuse_sequence_parts(const RuntimeContext& torch, std::string_view layer) {
  if (torch.distributed.least_reproducible() != Reproducible::pairs) return;
  wrong_layer(
      fmt::format("{} with Reproducible::pairs: with a part of the sequence on each rank, "
                  "gradients of norms would be sums over its own tokens",
                  layer));
}

std::int64_t count_blocks(const RuntimeContext& torch, const distributed::ProcessGroup& group,
                          const LayerInBlocks& layer) {
  const std::int64_t blocks = count_blocks(torch, group, layer.size, layer.name);
  if (torch.distributed.least_reproducible() != Reproducible::pairs) return blocks;
  if (layer.sequence_parallel) refuse_sequence_parts(torch, layer.name);
  if (layer.stride != 1 || !layer.is_on_one_pe) {
    wrong_layer(
        fmt::format("{} has stride {} and a weight on {}; with Reproducible::pairs a rank's part "
                    "must be a block of the weight, on one PE",
                    layer.name, layer.stride, layer.is_on_one_pe ? "one PE" : "several PEs"));
  }
  return blocks;
}

}  // namespace kernbench::tp
