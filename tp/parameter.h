// Parameters of layers: tensors with Megatron's attributes (megatron.core.tensor_parallel.layers).

#pragma once

#include <optional>

#include "runtime/torch/runtime_context.h"

namespace kernbench::tp {

// The attributes that Megatron sets on a parameter.
struct TensorModelParallelAttributes {
  bool tensor_model_parallel = false;  // ranks have different parts of it
  int partition_dim = -1;              // the dimension that is cut; -1: none
  int partition_stride = 1;            // chunks of each rank's part
  friend bool operator==(const TensorModelParallelAttributes&,
                         const TensorModelParallelAttributes&) = default;
};

// A parameter of a layer: a handle, like a Tensor.  The attributes belong to the handle, so
// changing them on a copy (`for (Parameter p : layer.parameters())` makes copies) changes no other
// handle.
class Parameter : public Tensor {
 public:
  Parameter() = default;
  explicit Parameter(const Tensor& tensor) : Tensor(tensor) {}

  std::optional<TensorModelParallelAttributes> attributes = std::nullopt;  // none: not set
  // True if its gradient sums over this rank's tokens alone, until
  // allreduce_sequence_parallel_gradients().
  bool sequence_parallel = false;
};

// Sets the attributes.  Throws CollectiveError KB-T006 if they are set already (Megatron asserts
// that they are not).
void set_tensor_model_parallel_attributes(Parameter& parameter, bool is_parallel, int dim,
                                          int stride);
// Marks the parameter as not parallel, unless its attributes are set.
void set_defaults_if_not_set_tensor_model_parallel_attributes(Parameter& parameter);
// Copies the attributes that `from` has.
void copy_tensor_model_parallel_attributes(Parameter& to, const Parameter& from);

// True if a sum over all ranks' parameters (e.g. of norms) must count this one: a replicated
// parameter counts only on the first rank of the tensor model parallel group.
bool param_is_not_tensor_parallel_duplicate(RuntimeContext& torch, const Parameter& parameter);

}  // namespace kernbench::tp
