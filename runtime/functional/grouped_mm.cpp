#include "runtime/functional/grouped_mm.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/autograd/autograd.h"
#include "runtime/autograd/kept_results.h"
#include "runtime/functional/matmul_across_pes.h"
#include "runtime/functional/shape_operators.h"
#include "runtime/ops/device_kernel.h"
#include "runtime/ops/elements.h"
#include "runtime/ops/placement.h"

namespace kernbench::nn::functional {

namespace {

using autograd::SavedTensor;
using ops::GemmOfRows;
using ops::GemmOperands;
using ops::MatrixRows;

constexpr std::string_view kGroupedMm = "grouped_mm";

// The rows of each group.
using Groups = std::vector<MatrixRows>;

Groups groups_of(const std::vector<std::int64_t>& sizes) {
  Groups groups;
  std::int64_t begin = 0;
  for (const std::int64_t size : sizes) {
    groups.push_back({begin, begin + size});
    begin += size;
  }
  return groups;
}

void check_groups(const Tensor& x, const std::vector<std::int64_t>& sizes,
                  const std::vector<Tensor>& weights) {
  const auto refuse = [](const std::string& text) { ops::refuse_shapes(kGroupedMm, text); };
  if (weights.empty() || sizes.size() != weights.size()) {
    refuse(fmt::format("{} groups and {} weights: each group has one, and there is one at least",
                       sizes.size(), weights.size()));
  }
  if (x.dim() != 2) refuse(fmt::format("x is a matrix, and not {}", to_string(x.shape())));
  for (const Tensor& weight : weights) {
    if (weight.dim() == 2 && weight.size(1) == x.size(1) &&
        weight.shape() == weights.front().shape()) {
      continue;
    }
    refuse(
        fmt::format("contraction dimension of mat_a and mat_b must match: x is {} and a weight "
                    "{}, where [out, {}] is wanted, with one `out` for all",
                    to_string(x.shape()), to_string(weight.shape()), x.size(1)));
  }
  if (x.size(1) < 1 || weights.front().size(0) < 1) {
    refuse(fmt::format("x is {} and a weight {}: a feature is wanted on either side",
                       to_string(x.shape()), to_string(weights.front().shape())));
  }
  const bool is_negative = std::ranges::any_of(sizes, [](std::int64_t size) { return size < 0; });
  const std::int64_t rows = std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
  if (is_negative || rows != x.size(0)) {
    refuse(
        fmt::format("groups of {} rows in all, none of them negative, are wanted of x {}; these "
                    "have {}",
                    x.size(0), to_string(x.shape()), rows));
  }
}

void check_group_placements(const Tensor& x, const std::vector<Tensor>& weights) {
  const ops::Placement placement = ops::placement_of(x);
  ops::check_is_whole(kGroupedMm, x);
  ops::check_is_uncut(kGroupedMm, x, 1);
  const bool is_cut = placement.cube.is_cut() || placement.pe.is_cut();
  for (const Tensor& weight : weights) {
    ops::check_is_whole(kGroupedMm, weight);
    const ops::Placement of = ops::placement_of(weight);
    const bool is_whole = of.cube.is_replicate() && of.pe.is_replicate();
    if (of.is_shared || (is_whole && !is_cut)) continue;
    ops::refuse_placements(kGroupedMm, x, weight,
                           "rows that are cut want weights that PEs share (DPPolicy::shared), and "
                           "replicated rows those or replicated ones");
  }
}

// c = the product of each group's rows of a and its factor, transposed or not.
Tensor multiply_groups(std::string_view name, const Tensor& a, const Groups& groups,
                       const std::vector<Tensor>& factors, bool transpose_b) {
  const std::int64_t columns = factors.front().size(transpose_b ? 0 : 1);
  Tensor c = ops::make_like(a, name, {a.size(0), columns}, a.dtype(), ops::placement_of(a));
  std::vector<GemmOfRows> products;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    if (groups[i].count() == 0) continue;
    products.push_back({c, {.a = a, .b = factors[i], .transpose_b = transpose_b}, groups[i]});
  }
  if (!products.empty()) ops::gemms_across_pes(name, products);
  return c;
}

// dy_g^T x_g for each group, placed as its weight.
std::vector<Tensor> gradients_of_weights(const Tensor& dy, const Tensor& x, const Groups& groups,
                                         const std::vector<ops::Placement>& placements) {
  constexpr std::string_view name = "grouped_mm_backward";
  std::vector<Tensor> gradients;
  std::vector<GemmOfRows> products;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    gradients.push_back(ops::make_like(x, name, {dy.size(1), x.size(1)}, x.dtype(), placements[i]));
    if (groups[i].count() == 0) {
      ops::fill(gradients.back(), 0);
    } else {
      products.push_back({gradients.back(), {.a = dy, .b = x, .transpose_a = true}, groups[i]});
    }
  }
  if (!products.empty()) ops::gemms_across_pes(name, products);
  return gradients;
}

// One launch computes the gradients of all weights, so it runs if one of them is asked for.
bool asks_for_weights(const autograd::AskedInputs& asked, std::size_t weights) {
  for (std::size_t i = 1; i <= weights; ++i) {
    if (asked.contains(i)) return true;
  }
  return false;
}

}  // namespace

Tensor grouped_mm(const Tensor& of, const std::vector<std::int64_t>& sizes,
                  const std::vector<Tensor>& of_weights) {
  const Tensor x = contiguous(of);
  const std::vector<Tensor> weights = contiguous(of_weights);
  check_groups(x, sizes, weights);
  std::vector<Tensor> operands = {x};
  operands.insert(operands.end(), weights.begin(), weights.end());
  ops::check_operands(kGroupedMm, operands, ops::Types::factors);
  check_group_placements(x, weights);
  const Groups groups = groups_of(sizes);
  const Tensor y = autograd::kept_or_computed(kGroupedMm, operands, [&] {
    return std::vector{multiply_groups(kGroupedMm, x, groups, weights, true)};
  }).front();
  const bool of_x = autograd::needs_grad(x);
  const bool of_w = std::ranges::any_of(
      weights, [](const Tensor& weight) { return autograd::needs_grad(weight); });
  if (!of_x && !of_w) return y;
  std::vector<SavedTensor> saved;
  std::vector<ops::Placement> placements;
  for (const Tensor& weight : weights) {
    saved.emplace_back(of_x ? weight : Tensor());
    placements.push_back(ops::placement_of(weight));
  }
  const auto backward = [groups, saved, placements, of_x, of_w,
                         x = SavedTensor(of_w ? x : Tensor())](const Tensor& grad,
                                                               const autograd::AskedInputs& asked) {
    const Tensor dy = contiguous(grad);
    std::vector<Tensor> gradients(1 + saved.size());
    if (of_x && asked.contains(0)) {
      std::vector<Tensor> factors;
      for (const SavedTensor& weight : saved) factors.push_back(weight.get());
      gradients.front() = multiply_groups("grouped_mm_backward", dy, groups, factors, false);
    }
    if (of_w && asks_for_weights(asked, saved.size())) {
      std::ranges::move(gradients_of_weights(dy, x.get(), groups, placements),
                        std::next(gradients.begin()));
    }
    return gradients;
  };
  return autograd::record(kGroupedMm, y, operands, backward);
}

}  // namespace kernbench::nn::functional
