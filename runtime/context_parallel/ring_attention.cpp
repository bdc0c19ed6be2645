#include "runtime/context_parallel/ring_attention.h"

#include <optional>
#include <vector>

#include "runtime/autograd/autograd.h"
#include "runtime/context_parallel/key_rotation.h"
#include "runtime/functional/attention_parts.h"
#include "runtime/functional/operators.h"
#include "runtime/functional/shape_operators.h"
#include "runtime/tensor/memory_space.h"
#include "runtime/torch/internals.h"
#include "runtime/torch/runtime_context.h"

namespace kernbench::experimental {

namespace {

using autograd::SavedTensor;
using ops::AttentionInputs;
using ops::AttentionResult;
using ops::PackedAttention;

TensorOptions in_f32(const Tensor& like) {
  return {.dtype = DType::f32, .dp = like.dp()};
}

AttentionResult attend(const Ring& ring, const PackedAttention& own,
                       const AttentionInputs& inputs) {
  const runtime::MadeAs results(simulation_of(ring.torch), MemoryKind::temporary);
  const Tensor& query = inputs.query;
  AttentionResult result{ring.torch.empty(query.shape(), in_f32(query)),
                         ring.torch.empty({query.size(0), query.size(1)}, in_f32(query))};
  const auto keys = begin_rotation(ring, {inputs.key, inputs.value});
  for (int step = 0; step < ring.size; ++step) {
    const auto [key, value] = keys->arrive(step);
    if (auto part = attention_between(own, ring, ring.rank, ring.source(step))) {
      part->continues = step > 0;
      ops::attend_into(*part, {{query, key, value}}, {result});
    }
    keys->launched(step);
  }
  result.output = to(result.output, query.dtype());
  return result;
}

std::vector<Tensor> attend_backward(const Ring& ring, const PackedAttention& own,
                                    const AttentionInputs& inputs, const AttentionResult& result,
                                    const Tensor& dy) {
  const auto zeros_like = [&](const Tensor& x) { return ring.torch.zeros(x.shape(), in_f32(x)); };
  const Tensor of_query = zeros_like(inputs.query);
  const auto keys = begin_rotation(ring, {inputs.key, inputs.value});
  GradientRotation gradients(ring);
  for (int step = 0; step < ring.size; ++step) {
    const auto [key, value] = keys->arrive(step);
    std::optional<KeyValue> of_keys;
    if (auto part = attention_between(own, ring, ring.rank, ring.source(step))) {
      of_keys = {zeros_like(key), zeros_like(value)};
      part->continues = step > 0;
      ops::BackwardParts tensors;
      tensors.add({inputs.query, key, value}, result, dy, {of_query, of_keys->key, of_keys->value});
      ops::attend_backward_into(*part, tensors);
    }
    keys->launched(step);
    gradients.pass(of_keys);
  }
  const KeyValue home = gradients.take_home();
  const DType dtype = inputs.query.dtype();
  return {to(of_query, dtype), to(home.key, dtype), to(home.value, dtype)};
}

}  // namespace

Tensor ring_attention(const Ring& ring, const PackedAttention& own, const AttentionInputs& inputs) {
  AttentionResult result;
  {
    const NoGradGuard no_grad(ring.torch);
    result = attend(ring, own, inputs);
  }
  const auto& [query, key, value] = inputs;
  if (!autograd::needs_grad(query, key, value)) return result.output;
  return autograd::record(
      "ring_attention", result.output, {query, key, value},
      [ring, own, q = SavedTensor(query), k = SavedTensor(key), v = SavedTensor(value),
       output = SavedTensor(result.output), log_sums = result.log_sums](const Tensor& dy) {
        return attend_backward(ring, own, {q.get(), k.get(), v.get()}, {output.get(), log_sums},
                               contiguous(dy));
      });
}

}  // namespace kernbench::experimental
