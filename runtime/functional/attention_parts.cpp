#include "runtime/functional/attention_parts.h"

namespace kernbench::ops {

void BackwardParts::add(const AttentionInputs& inputs, const AttentionResult& result,
                        const Tensor& gradient, const AttentionGradients& gradients) {
  query.push_back(inputs.query);
  key.push_back(inputs.key);
  value.push_back(inputs.value);
  dy.push_back(gradient);
  output.push_back(result.output);
  log_sums.push_back(result.log_sums);
  of_query.push_back(gradients.query);
  of_key.push_back(gradients.key);
  of_value.push_back(gradients.value);
}

std::vector<Tensor> joined(std::initializer_list<std::vector<Tensor>> lists) {
  std::vector<Tensor> all;
  for (const std::vector<Tensor>& list : lists) all.insert(all.end(), list.begin(), list.end());
  return all;
}

}  // namespace kernbench::ops
