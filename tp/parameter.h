// Parameters of layers: tensors with Megatron's attributes (megatron.core.tensor_parallel.layers).

#pragma once

#include <concepts>
#include <optional>
#include <vector>

#include "runtime/nn/module.h"
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
  bool shared = false;  // another pipeline stage has it too, and counts it
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
// The same, and another pipeline stage does not count it.
bool counts_in_norms(RuntimeContext& torch, const Parameter& parameter);

// A module whose parameters have attributes: a base beside nn::Module.
class ParallelLayer {
 public:
  virtual ~ParallelLayer() = default;
  // The module's own parameters, with their attributes.
  virtual std::vector<Parameter> parameters() const = 0;
};

// A module whose input is a rank's part of the sequence, so that its parameters' gradients sum over
// this rank's tokens alone: `struct Norm : nn::ModuleHolder<tp::SequenceParallel<
// nn::LayerNormImpl>>`.
template <std::derived_from<nn::Module> Impl>
class SequenceParallel : public Impl, public ParallelLayer {
 public:
  using Impl::Impl;
  std::vector<Parameter> parameters() const override {
    std::vector<Parameter> own;
    for (const Tensor& tensor : nn::Module::parameters(false)) {
      own.emplace_back(tensor).sequence_parallel = true;
    }
    return own;
  }
};

// All parameters of a module, as its parameters() lists them, with the attributes that the layers
// in it give them; of a module that fully_shard has cut, this rank's shards with those of the whole
// parameters.
std::vector<Parameter> parallel_parameters(nn::Module& module);

}  // namespace kernbench::tp
