// megatron.core.tensor_parallel.RowParallelLinear.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/nn/module.h"
#include "tp/mappings.h"
#include "tp/parameter.h"
#include "tp/weights.h"

namespace kernbench::tp {

struct RowParallelLinearOptions {
  std::int64_t in_features = 0;  // of all ranks together
  std::int64_t out_features = 0;
  bool bias = true;                // initialized to 0
  bool input_is_parallel = true;   // x is this rank's part; else the whole x
  bool skip_bias_add = false;      // forward_with_bias() returns the bias, to be added elsewhere
  bool sequence_parallel = false;  // each rank gets a part of the output's first dimension
  int stride = 1;
  InitMethod init_method = init_method_normal(0.02);
  bool perform_initialization = true;
  // As ColumnParallelLinear's.  A weight that several PEs share takes its own columns' PEs alone.
  std::optional<DType> dtype = std::nullopt;
  // The PEs of the device that share the rank's part, row-wise: the first num_pes PEs of the first
  // num_cubes cubes.  The input is cut column-wise over them, like a ColumnParallelLinear's output
  // (ADR-0133); with input_is_parallel = false it is replicated.
  int num_cubes = 1;
  int num_pes = 1;
  OptionalGroup tp_group = std::nullopt;  // none: the caller's tensor model parallel group
  std::string name = "row_parallel_linear";
};

// y = x A + b, with the rows of A cut over the W ranks of a group, and the columns of x likewise:
// x A is the sum of x_r A_r.
//
//   x       [..., in / W]   this rank's columns; input_is_parallel = false: [..., in], all of them
//   weight  [in / W, out]   this rank's rows (Megatron's transposed)
//   bias    [out]           the same on all ranks; added once, to the sum
//   y       [..., out]      the same on all ranks; sequence_parallel: [s / W, ..., out]
//
// Communication: forward one all_reduce of y, backward none.  sequence_parallel: forward one
// reduce_scatter of y, backward one all_gather of its gradient; then the bias' gradient is a sum
// over this rank's tokens, for allreduce_sequence_parallel_gradients().
class RowParallelLinear : public nn::Module, public ParallelLayer {
 public:
  // Called by a rank.  Throws CollectiveError KB-T001 if the group does not divide in_features,
  // KB-T006 for options that do not go together, KB-T002 without groups.
  RowParallelLinear(RuntimeContext& torch, RowParallelLinearOptions options);
  RowParallelLinear(RuntimeContext& torch, std::int64_t in_features, std::int64_t out_features)
      : RowParallelLinear(torch, {.in_features = in_features, .out_features = out_features}) {}

  // y.
  Tensor forward(const Tensor& x, Location location = Location::current()) const;
  // forward(), with the hooks of the module around it, such as those of fully_shard.
  Tensor operator()(const Tensor& x, Location location = Location::current()) const {
    return call(x, [&](const Tensor& input) { return forward(input, location); });
  }
  // y, and with skip_bias_add the bias, which is then not added to y.
  std::pair<Tensor, Tensor> forward_with_bias(const Tensor& x,
                                              Location location = Location::current()) const;

  const RowParallelLinearOptions& options() const { return options_; }
  // With Megatron's attributes; of a Module they are plain tensors.
  std::vector<Parameter> parameters() const override;

  Parameter weight;
  Parameter bias;  // undefined without bias

 private:
  Tensor own_columns(const Tensor& x, Location location) const;

  RuntimeContext& torch_;
  const RowParallelLinearOptions options_;
  const distributed::ProcessGroup group_;
  const bool is_sequence_parallel_;
};

// Sums the gradients of the parameters with Parameter::sequence_parallel over the ranks: one
// all_reduce for each that has a gradient.  Call it once per step, after its last backward
// (_allreduce_non_tensor_model_parallel_grads of megatron's finalize_model_grads).  `group`: by
// default the caller's tensor model parallel group.
void allreduce_sequence_parallel_gradients(RuntimeContext& torch,
                                           const std::vector<Parameter>& parameters,
                                           const OptionalCallGroup& group = Location::current());

}  // namespace kernbench::tp
