// The tensors of attention over packed rows, each of which may be in parts (PackedLayout).

#pragma once

#include <initializer_list>
#include <vector>

#include "runtime/functional/packed_attention.h"
#include "runtime/tensor/tensor.h"

namespace kernbench::ops {

// The tensors of a backward pass, each by its parts.
struct BackwardParts {
  std::vector<Tensor> query;
  std::vector<Tensor> key;
  std::vector<Tensor> value;
  std::vector<Tensor> dy;
  std::vector<Tensor> output;
  std::vector<Tensor> log_sums;
  std::vector<Tensor> of_query;  // gradients, which are written
  std::vector<Tensor> of_key;
  std::vector<Tensor> of_value;

  void add(const AttentionInputs& inputs, const AttentionResult& result, const Tensor& gradient,
           const AttentionGradients& gradients);
};

// Returns one tensor of each part.
template <class Of>
std::vector<Tensor> parts_of(const std::vector<Of>& of, Tensor Of::*member) {
  std::vector<Tensor> parts;
  for (const Of& each : of) parts.push_back(each.*member);
  return parts;
}

std::vector<Tensor> joined(std::initializer_list<std::vector<Tensor>> lists);

}  // namespace kernbench::ops
