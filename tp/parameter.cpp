#include "tp/parameter.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "runtime/distributed/shard_spec.h"
#include "runtime/tensor/tensor_storage.h"
#include "tp/misuse.h"
#include "tp/parallel_state.h"

namespace kernbench::tp {

void set_tensor_model_parallel_attributes(Parameter& parameter, bool is_parallel, int dim,
                                          int stride) {
  if (parameter.attributes) {
    wrong_layer(fmt::format("the tensor model parallel attributes of \'{}\' are set already",
                            parameter.defined() ? parameter.name() : "a parameter"));
  }
  parameter.attributes = {is_parallel, dim, stride};
}

void set_defaults_if_not_set_tensor_model_parallel_attributes(Parameter& parameter) {
  if (!parameter.attributes) parameter.attributes = TensorModelParallelAttributes{};
}

void copy_tensor_model_parallel_attributes(Parameter& to, const Parameter& from) {
  if (from.attributes) to.attributes = from.attributes;
}

bool param_is_not_tensor_parallel_duplicate(RuntimeContext& torch, const Parameter& parameter) {
  const bool is_parallel = parameter.attributes && parameter.attributes->tensor_model_parallel;
  return is_parallel || get_tensor_model_parallel_rank(torch) == 0;
}

bool counts_in_norms(RuntimeContext& torch, const Parameter& parameter) {
  return !parameter.shared && param_is_not_tensor_parallel_duplicate(torch, parameter);
}

namespace {

// Returns the layer's whole parameter for a rank's shard of it.
const Tensor& find_whole(const Tensor& tensor) {
  const auto& spec = tensor.storage()->shard_of;
  return spec == nullptr ? tensor : spec->parameter;
}

}  // namespace

std::vector<Parameter> parallel_parameters(nn::Module& module) {
  std::vector<Parameter> known;
  module.apply([&](nn::Module& part) {
    const auto* const layer = dynamic_cast<const ParallelLayer*>(&part);
    if (layer != nullptr) std::ranges::copy(layer->parameters(), std::back_inserter(known));
  });
  std::vector<Parameter> all;
  for (const Tensor& tensor : module.parameters()) {
    const auto found = std::ranges::find_if(known, [&](const Parameter& parameter) {
      return find_whole(parameter).storage() == find_whole(tensor).storage();
    });
    all.emplace_back(tensor);
    if (found == known.end()) continue;
    all.back().attributes = found->attributes;
    all.back().sequence_parallel = found->sequence_parallel;
    all.back().shared = found->shared;
  }
  return all;
}

}  // namespace kernbench::tp
