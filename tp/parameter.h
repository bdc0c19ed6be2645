// Parameters of layers: tensors with Megatron's attributes (megatron.core.tensor_parallel.layers).

#pragma once

#include <optional>

#include "runtime/context/runtime_context.h"

namespace kernbench::tp {

// What Megatron sets on a parameter.
struct TensorModelParallelAttributes {
  bool tensor_model_parallel = false;  // ranks have different parts of it
  int partition_dim = -1;              // that is cut; -1: none
  int partition_stride = 1;            // chunks of each rank's part
  friend bool operator==(const TensorModelParallelAttributes&,
                         const TensorModelParallelAttributes&) = default;
};

// A leaf of a layer; a handle, as a Tensor is.  What is beside the tensor belongs to the handle:
// of a copy, and `for (Parameter p : layer.parameters())` makes copies, it changes nothing for
// others.
class Parameter : public Tensor {
 public:
  Parameter() = default;
  explicit Parameter(const Tensor& tensor) : Tensor(tensor) {}

  std::optional<TensorModelParallelAttributes> attributes = std::nullopt;  // none: not set
  // Its gradient is a sum over this rank's tokens alone, until
  // allreduce_sequence_parallel_gradients().
  bool sequence_parallel = false;
};

// Throws CollectiveError KB-T006 if they are set already (Megatron asserts that they are not).
void set_tensor_model_parallel_attributes(Parameter& parameter, bool is_parallel, int dim,
                                          int stride);
// Not parallel, unless something is set.
void set_defaults_if_not_set_tensor_model_parallel_attributes(Parameter& parameter);
// Those that `from` has.
void copy_tensor_model_parallel_attributes(Parameter& to, const Parameter& from);

// Whether a sum over all ranks' parameters (of norms, say) counts this rank's: of those that ranks
// have copies of, only the first of the tensor model parallel group.
bool param_is_not_tensor_parallel_duplicate(RuntimeContext& torch, const Parameter& parameter);

}  // namespace kernbench::tp
