#include "runtime/functional/functional.h"
#include "tp/layer_input.h"
#include "tp/layers.h"
#include "tp/misuse.h"
#include "tp/product_in_blocks.h"
#include "tp/warnings.h"

namespace kernbench::tp {

RowParallelLinear::RowParallelLinear(RuntimeContext& torch, RowParallelLinearOptions options)
    : torch_(torch),
      options_(std::move(options)),
      group_(group_or_tensor_model_parallel(torch, options_.tp_group)),
      is_sequence_parallel_(options_.sequence_parallel &&
                            torch.distributed.get_world_size(group_) > 1),
      blocks_(count_blocks(torch, group_, LayerInBlocks(options_, options_.in_features))) {
  if (options_.sequence_parallel && !options_.input_is_parallel) {
    wrong_layer("To enable `sequence_parallel`, `input_is_parallel` must be `True`");
  }
  if (options_.sequence_parallel) {
    warn_if_not_sequence_parallel(torch, options_.name, torch.distributed.get_world_size(group_));
  }
  const WeightPartition rows{.dim = 0,
                             .rank = torch.distributed.get_rank(group_),
                             .world_size = torch.distributed.get_world_size(group_),
                             .stride = options_.stride};
  weight =
      make_weight(torch, {options_.in_features, options_.out_features}, rows, options_.init_method,
                  {.dtype = options_.dtype.value_or(DType::f16),
                   .dp = policy_of_part(options_, Shard::row_wise),
                   .name = options_.name + ".weight",
                   .cut_option = "in_features",
                   .perform_initialization = options_.perform_initialization});
  set_tensor_model_parallel_attributes(weight, true, 0, options_.stride);
  register_parameter("weight", weight);
  if (!options_.bias) return;
  bias = make_bias(torch, {options_.out_features}, {},
                   {.dtype = options_.dtype.value_or(DType::f16),
                    .dp = {.num_cubes = weight.dp().num_cubes, .num_pes = weight.dp().num_pes},
                    .name = options_.name + ".bias"});
  set_defaults_if_not_set_tensor_model_parallel_attributes(bias);
  bias.sequence_parallel = is_sequence_parallel_;
  register_parameter("bias", bias);
}

std::vector<Parameter> RowParallelLinear::parameters() const {
  return bias.defined() ? std::vector{weight, bias} : std::vector{weight};
}

// The PEs that share the weight's rows share x's columns in the same way; with a shared weight, of
// which each has all rows, x stays as it lies.
Tensor RowParallelLinear::own_columns(const Tensor& x, Location location) const {
  torch_.check_on_device(x, options_.name);
  const ops::Placement of_weight = ops::placement_of(weight);
  if (of_weight.is_shared) {
    return scatter_to_tensor_model_parallel_region(torch_, x, {group_, location});
  }
  const auto columns = ops::by_level(of_weight, [&](const ops::Level& level) {
    return std::optional(level.is_cut() ? ops::cut(x.shape().rank() - 1) : level);
  });
  return scatter_columns_over_holders(torch_, x, *columns, {group_, location});
}

Tensor RowParallelLinear::forward(const Tensor& x, Location location) const {
  return forward_with_bias(x, location).first;
}

std::pair<Tensor, Tensor> RowParallelLinear::forward_with_bias(const Tensor& x,
                                                               Location location) const {
  const Tensor fitting = options_.dtype ? x : layer_input(x, weight);
  const Tensor own = options_.input_is_parallel ? fitting : own_columns(fitting, location);
  Tensor summand = linear_with_grad_accumulation_and_async_allreduce(
      torch_, own, weight, {}, {.blocks = {WeightBlocks::Cut::rows, blocks_}});
  Tensor y = is_sequence_parallel_
                 ? reduce_scatter_to_sequence_parallel_region(torch_, summand, {group_, location})
                 : reduce_from_tensor_model_parallel_region(torch_, std::move(summand),
                                                            {group_, location});
  if (options_.skip_bias_add) return {y, bias};
  return {bias.defined() ? y + bias : y, Tensor()};
}

void allreduce_sequence_parallel_gradients(RuntimeContext& torch,
                                           const std::vector<Parameter>& parameters,
                                           const OptionalCallGroup& group) {
  const CallGroup members = group.get(torch);
  for (const Parameter& parameter : parameters) {
    if (!parameter.sequence_parallel || !parameter.grad().defined()) continue;
    torch.distributed.all_reduce(parameter.grad(), ReduceOp::sum, {members.group},
                                 members.location);
  }
}

}  // namespace kernbench::tp
