// The plan of the row that is sent for each slot.

#include <algorithm>
#include <cmath>

#include "runtime/expert_parallel/exchange.h"
#include "sim_engine/base/error.h"

namespace kernbench::moe {

namespace {

// The slots of each expert, in the order of tokens.
std::vector<RowSources> slots_by_expert(const Slots& slots) {
  std::vector<RowSources> of_experts(static_cast<std::size_t>(slots.num_experts));
  for (std::size_t slot = 0; slot < slots.experts.size(); ++slot) {
    const std::int64_t expert = slots.experts[slot];
    if (expert == -1) continue;
    if (expert < -1 || expert >= slots.num_experts) {
      throw CollectiveError("KB-C029",
                            "dispatch: expert {} of a token; there are 0 to {}, and -1 "
                            "for none",
                            expert, slots.num_experts - 1);
    }
    of_experts[static_cast<std::size_t>(expert)].push_back(static_cast<std::int64_t>(slot));
  }
  return of_experts;
}

// NaN is greater than all numbers, as in torch's sort, so that this is an order of all weights.
bool is_greater(float a, float b) {
  return std::isnan(a) ? !std::isnan(b) : a > b;
}

// Leaves the slots that an expert has room for, in their order.
void drop(RowSources& of_expert, std::span<const float> weights, const DispatchOptions& options,
          std::int64_t capacity) {
  if (std::ssize(of_expert) <= capacity) return;
  if (options.drop_policy == DropPolicy::probs && !weights.empty()) {
    std::ranges::stable_sort(of_expert, is_greater, [&](std::int64_t slot) {
      return weights[static_cast<std::size_t>(slot)];
    });
  }
  of_expert.resize(static_cast<std::size_t>(capacity));
  std::ranges::sort(of_expert);
}

}  // namespace

std::int64_t expert_capacity(std::int64_t slots, std::int64_t num_experts, double factor) {
  // A product that a factor such as 1.1 has put just above a whole number is that number.
  const double exact = static_cast<double>(slots) * factor / static_cast<double>(num_experts);
  const double capacity = std::ceil(exact * (1 - 1e-12));
  if (!(capacity >= 1) || capacity > 1e15) {
    throw CollectiveError("KB-C029",
                          "expert capacity {}: {} tokens of experts times capacity_factor {}, over "
                          "{} experts, is below 1, or no number of tokens",
                          capacity, slots, factor, num_experts);
  }
  return static_cast<std::int64_t>(capacity);
}

SendPlan plan_sends(const Slots& slots, const DispatchOptions& options) {
  SendPlan plan;
  if (options.capacity_factor && !slots.experts.empty()) {
    plan.capacity =
        expert_capacity(std::ssize(slots.experts), slots.num_experts, *options.capacity_factor);
  }
  for (RowSources& of_expert : slots_by_expert(slots)) {
    if (plan.capacity > 0) drop(of_expert, slots.weights, options, plan.capacity);
    plan.kept += std::ssize(of_expert);
    if (options.pad_to_capacity) {
      of_expert.resize(static_cast<std::size_t>(plan.capacity), kNoRow);
    }
    plan.counts.push_back(std::ssize(of_expert));
    plan.slots.insert(plan.slots.end(), of_expert.begin(), of_expert.end());
  }
  return plan;
}

RowSources inverse_of(const RowSources& sources, std::int64_t size) {
  RowSources inverse(static_cast<std::size_t>(size), kNoRow);
  for (std::size_t i = 0; i < sources.size(); ++i) {
    if (sources[i] != kNoRow) {
      inverse[static_cast<std::size_t>(sources[i])] = static_cast<std::int64_t>(i);
    }
  }
  return inverse;
}

}  // namespace kernbench::moe
