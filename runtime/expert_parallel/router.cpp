#include <array>
#include <string_view>

#include "runtime/expert_parallel/checks.h"
#include "runtime/expert_parallel/expert_parallel.h"
#include "runtime/functional/functional.h"
#include "runtime/functional/operators.h"
#include "runtime/functional/shape_operators.h"
#include "sim_engine/base/enum_names.h"
#include "sim_engine/base/error.h"

namespace kernbench::moe {

namespace {

Tensor scores_of(const Tensor& logits, ScoreFunc function) {
  return function == ScoreFunc::softmax ? softmax(logits, -1) : logits.sigmoid();
}

// torchtitan adds 1e-20, for sigmoids that are all 0.  The sum of the largest probabilities of a
// softmax is 1 / num_experts at least, which that does not change.
Tensor sum_of_weights(const Tensor& weights, const RouterOptions& options) {
  const Tensor total = sum(weights, {-1}, true);
  return options.score_func == ScoreFunc::sigmoid ? total + 1e-20 : total;
}

}  // namespace

std::string_view name_of(DropPolicy policy) {
  constexpr std::array<std::string_view, kDropPolicies.size()> kNames = {"probs", "position"};
  return name_in(kNames, policy);
}

std::string_view name_of(RoutingReader reader) {
  constexpr std::array<std::string_view, kRoutingReaders.size()> kNames = {"host", "device"};
  return name_in(kNames, reader);
}

Routed route(const Tensor& logits, const RouterOptions& options) {
  if (logits.dim() != 2) {
    throw CollectiveError("KB-C029", "route: logits are [tokens, num_experts], and not {}",
                          to_string(logits.shape()));
  }
  check_top_k("route", options.top_k, logits.size(1));
  // Rounding may make scores equal whose logits are not: the first ones are chosen then.
  const bool is_over_all = options.pre_softmax || options.score_func == ScoreFunc::sigmoid;
  const auto [chosen, experts] =
      topk(is_over_all ? scores_of(logits, options.score_func) : logits, options.top_k, -1);
  Tensor weights = is_over_all ? chosen : softmax(chosen, -1);
  if (options.route_norm) weights = weights / sum_of_weights(weights, options);
  if (options.route_scale != 1) weights = weights * options.route_scale;
  return {experts, weights};
}

}  // namespace kernbench::moe
