// megatron.core.tensor_parallel.ColumnParallelLinear.

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

struct ColumnParallelLinearOptions {
  std::int64_t in_features = 0;
  std::int64_t out_features = 0;   // of all ranks together
  bool bias = true;                // initialized to 0
  bool gather_output = false;      // all ranks get the whole output
  bool skip_bias_add = false;      // forward_with_bias() returns the bias, to be added elsewhere
  bool sequence_parallel = false;  // each rank has a part of the input's first dimension
  // True if the communication of the input's gradient overlaps the product for the weight's
  // gradient.
  bool async_tensor_model_parallel_allreduce = true;
  bool disable_grad_reduce = false;  // the input's gradient is not summed over ranks
  // The layer has no weight: forward() takes one [in, out / W], e.g. an embedding's.
  bool skip_weight_param_allocation = false;
  int stride = 1;  // chunks in a rank's part, for a weight that joins several, e.g. q, k and v
  InitMethod init_method = init_method_normal(0.02);
  bool perform_initialization = true;
  // Without one it is f16, and forward() casts its input to it and takes any that has whole rows on
  // each PE that holds it; with one, an input of another type or on other PEs is refused
  // (ADR-0219).
  std::optional<DType> dtype = std::nullopt;
  // The PEs of the device that share the rank's part, column-wise: the first num_pes PEs of the
  // first num_cubes cubes.  The input is replicated on them (ADR-0133).
  int num_cubes = 1;
  int num_pes = 1;
  OptionalGroup tp_group = std::nullopt;  // none: the caller's tensor model parallel group
  std::string name = "column_parallel_linear";
};

// y = x A + b, with the columns of A cut over the W ranks of a group: A = [A_1 ... A_W].
//
//   x       [..., in]          the same on all ranks; sequence_parallel: [s / W, ..., in]
//   weight  [in, out / W]      this rank's columns (Megatron's transposed)
//   bias    [out / W]
//   y       [..., out / W]     x A_r + b_r; gather_output: [..., out]
//
// Communication: forward none, backward one all_reduce of the gradient of x, overlapping the
// product for the weight's gradient.  sequence_parallel: forward one all_gather of x, backward
// another one and a reduce_scatter of its gradient.  gather_output: one all_gather of y.
class ColumnParallelLinear : public nn::Module, public ParallelLayer {
 public:
  // Called by a rank.  Throws CollectiveError KB-T001 if the group does not divide out_features,
  // KB-T006 for options that do not go together, KB-T002 without groups.
  ColumnParallelLinear(RuntimeContext& torch, ColumnParallelLinearOptions options);
  ColumnParallelLinear(RuntimeContext& torch, std::int64_t in_features, std::int64_t out_features)
      : ColumnParallelLinear(torch, {.in_features = in_features, .out_features = out_features}) {}

  // y.  `given_weight` is required with skip_weight_param_allocation (KB-T006, in Megatron's words,
  // if it is missing or has another shape); `gather_output` overrides the option.
  Tensor forward(const Tensor& x, const Tensor& given_weight = {},
                 std::optional<bool> gather_output = std::nullopt,
                 Location location = Location::current()) const;
  // forward(), with the hooks of the module around it, such as those of fully_shard.
  Tensor operator()(const Tensor& x, const Tensor& given_weight = {},
                    std::optional<bool> gather_output = std::nullopt,
                    Location location = Location::current()) const {
    return call(x, [&](const Tensor& input) {
      return forward(input, given_weight, gather_output, location);
    });
  }
  // y, and with skip_bias_add the bias, which is then not added to y: this rank's part, even if y
  // is gathered.
  std::pair<Tensor, Tensor> forward_with_bias(const Tensor& x, const Tensor& given_weight = {},
                                              std::optional<bool> gather_output = std::nullopt,
                                              Location location = Location::current()) const;

  const ColumnParallelLinearOptions& options() const { return options_; }
  // With Megatron's attributes; of a Module they are plain tensors.
  std::vector<Parameter> parameters() const override;

  Parameter weight;  // undefined if forward() takes one
  Parameter bias;    // undefined without bias

 private:
  Tensor checked_weight(const Tensor& given) const;

  RuntimeContext& torch_;
  const ColumnParallelLinearOptions options_;
  const distributed::ProcessGroup group_;
  const int world_size_;
};

}  // namespace kernbench::tp
