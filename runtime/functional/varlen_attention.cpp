#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <vector>

#include "runtime/autograd/autograd.h"
#include "runtime/autograd/kept_results.h"
#include "runtime/functional/attention_override.h"
#include "runtime/functional/functional.h"
#include "runtime/functional/packed_attention.h"
#include "runtime/functional/shape_operators.h"
#include "runtime/ops/placement.h"
#include "sim_engine/base/error.h"

namespace kernbench::nn::attention {

namespace {

using autograd::needs_grad;
using autograd::SavedTensor;
using ops::AttentionInputs;
using ops::PackedAttention;

constexpr std::string_view kName = "varlen_attn";

// Returns where sequences begin, and where the last ends.
std::vector<std::int64_t> read_positions(std::string_view argument, const Tensor& cu_seq,
                                         std::int64_t tokens, std::int64_t longest) {
  if (!cu_seq.defined() || !cu_seq.is_host() || cu_seq.dim() != 1 || cu_seq.numel() == 0) {
    ops::refuse_shapes(
        kName, fmt::format("{} is to be a host tensor [n + 1] of the positions at which the n "
                           "sequences begin, and the end: tensor({{0, 5, 12}}) for 5 and 7 tokens",
                           argument));
  }
  const auto positions = cu_seq.to_vector<std::int64_t>();
  if (positions.front() != 0 || positions.back() != tokens || !std::ranges::is_sorted(positions)) {
    ops::refuse_shapes(kName, fmt::format("{} must ascend from 0 to the {} tokens: {}", argument,
                                          tokens, fmt::join(positions, ", ")));
  }
  for (std::size_t i = 0; i + 1 < positions.size(); ++i) {
    if (positions[i + 1] - positions[i] > longest) {
      ops::refuse_shapes(
          kName, fmt::format("{} has a sequence of {} tokens, more than max_{} = {}", argument,
                             positions[i + 1] - positions[i], argument.back(), longest));
    }
  }
  return positions;
}

void check_packed(const AttentionInputs& inputs, const VarlenAttentionOptions& options) {
  const auto& [query, key, value] = inputs;
  ops::check_operands(kName, {query, key, value});
  ops::check_is_floating(kName, query);
  const auto refuse = [&](std::string_view what) {
    ops::refuse_shapes(
        kName, fmt::format("{}: query is {}, key {}, value {}", what, to_string(query.shape()),
                           to_string(key.shape()), to_string(value.shape())));
  };
  if (query.dim() != 3 || key.dim() != 3 || value.dim() != 3) {
    refuse("[tokens, heads, depth] is wanted");
  }
  if (key.shape() != value.shape() || query.size(2) != key.size(2)) {
    refuse("key and value have one shape, and their depth is the query's");
  }
  if (key.size(1) == 0 || query.size(2) == 0 || query.size(1) % key.size(1) != 0) {
    refuse("heads of key and value must divide those of the query");
  }
  if (query.size(1) != key.size(1) && !options.enable_gqa) {
    refuse("heads differ, which takes enable_gqa");
  }
}

PackedAttention describe_attention(const AttentionInputs& inputs,
                                   const std::vector<std::int64_t>& queries,
                                   const std::vector<std::int64_t>& keys,
                                   const VarlenAttentionOptions& options) {
  if (queries.size() != keys.size()) {
    ops::refuse_shapes(kName, fmt::format("cu_seq_q has {} sequences, and cu_seq_k {}",
                                          queries.size() - 1, keys.size() - 1));
  }
  const std::int64_t depth = inputs.query.size(2);
  PackedAttention attention;
  attention.heads = inputs.query.size(1);
  attention.key_heads = inputs.key.size(1);
  attention.depth = depth;
  attention.scale = options.scale.value_or(1 / std::sqrt(static_cast<double>(depth)));
  attention.is_causal = options.is_causal;
  for (std::size_t i = 0; i + 1 < queries.size(); ++i) {
    const ops::PackedSequence sequence{queries[i], queries[i + 1] - queries[i], keys[i],
                                       keys[i + 1] - keys[i]};
    const bool sees_nothing =
        options.is_causal ? sequence.key_rows < sequence.query_rows : sequence.key_rows == 0;
    if (sequence.query_rows > 0 && sees_nothing) {
      ops::refuse_shapes(kName,
                         fmt::format("sequence {} has {} rows of the query and {} keys: some "
                                     "rows would see none",
                                     i, sequence.query_rows, sequence.key_rows));
    }
    attention.sequences.push_back(sequence);
  }
  return attention;
}

}  // namespace

Tensor varlen_attn(const Tensor& query, const Tensor& key, const Tensor& value,
                   const Tensor& cu_seq_q, const Tensor& cu_seq_k, std::int64_t max_q,
                   std::int64_t max_k, const VarlenAttentionOptions& options) {
  ops::check_holders(kName, {query, key, value});
  const AttentionInputs inputs{contiguous(query), contiguous(key), contiguous(value)};
  check_packed(inputs, options);
  ops::check_lie_alike(kName, inputs);
  const PackedAttention attention =
      describe_attention(inputs, read_positions("cu_seq_q", cu_seq_q, query.size(0), max_q),
                         read_positions("cu_seq_k", cu_seq_k, key.size(0), max_k), options);
  if (const ops::AttentionOverride* const taken = ops::find_attention_override(query)) {
    return taken->packed(attention, inputs);
  }
  const std::vector<Tensor> results =
      autograd::kept_or_computed(kName, {inputs.query, inputs.key, inputs.value}, [&] {
        const ops::AttentionResult computed = ops::attend(attention, inputs);
        return std::vector{computed.output, computed.log_sums};
      });
  const ops::AttentionResult result{results[0], results[1]};
  if (!needs_grad(query) && !needs_grad(key) && !needs_grad(value)) return result.output;
  return autograd::record(
      kName, result.output, {inputs.query, inputs.key, inputs.value},
      [attention, query = SavedTensor(inputs.query), key = SavedTensor(inputs.key),
       value = SavedTensor(inputs.value), output = SavedTensor(result.output),
       log_sums = SavedTensor(result.log_sums)](const Tensor& dy) {
        auto [of_query, of_key, of_value] =
            ops::attend_backward(attention, {query.get(), key.get(), value.get()},
                                 {output.get(), log_sums.get()}, contiguous(dy));
        return std::vector{of_query, of_key, of_value};
      });
}

}  // namespace kernbench::nn::attention
