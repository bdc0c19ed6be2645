#include <fmt/format.h>

#include "tp/layer_input.h"
#include "tp/layers.h"
#include "tp/misuse.h"
#include "tp/parameter.h"
#include "tp/product_in_blocks.h"
#include "tp/warnings.h"

namespace kernbench::tp {

namespace {

[[noreturn]] void refuse_to_gather() {
  wrong_layer(
      "ColumnParallelLinear: gather_output with sequence_parallel: the next layer takes "
      "a part of the output, so there is nothing to gather");
}

}  // namespace

ColumnParallelLinear::ColumnParallelLinear(RuntimeContext& torch,
                                           ColumnParallelLinearOptions options)
    : torch_(torch),
      options_(std::move(options)),
      group_(group_or_tensor_model_parallel(torch, options_.tp_group)),
      world_size_(torch.distributed.get_world_size(group_)),
      blocks_(count_blocks(torch, group_, LayerInBlocks(options_, options_.out_features))) {
  if (options_.sequence_parallel) {
    if (options_.gather_output) refuse_to_gather();
    warn_if_not_sequence_parallel(torch, options_.name, world_size_);
  }
  const WeightPartition columns{.dim = 1,
                                .rank = torch.distributed.get_rank(group_),
                                .world_size = world_size_,
                                .stride = options_.stride};
  const WeightOptions made{
      .dtype = options_.dtype.value_or(DType::f16),
      .dp = policy_of_part(options_, Shard::column_wise),
      .name = options_.name + ".weight",
      .cut_option = "out_features",
      .perform_initialization = options_.perform_initialization};
  if (options_.skip_weight_param_allocation) {
    divide(options_.out_features, world_size_,
           fmt::format("out_features of '{}', the ranks of its group", options_.name));
  } else {
    weight = make_weight(torch, {options_.in_features, options_.out_features}, columns,
                         options_.init_method, made);
    set_tensor_model_parallel_attributes(weight, true, 1, options_.stride);
    register_parameter("weight", weight);
  }
  if (!options_.bias) return;
  WeightPartition elements = columns;
  elements.dim = 0;
  WeightOptions of_bias = made;
  of_bias.name = options_.name + ".bias";
  bias = make_bias(torch, {options_.out_features}, elements, of_bias);
  set_tensor_model_parallel_attributes(bias, true, 0, options_.stride);
  register_parameter("bias", bias);
}

std::vector<Parameter> ColumnParallelLinear::parameters() const {
  std::vector<Parameter> all;
  if (weight.defined()) all.push_back(weight);
  if (bias.defined()) all.push_back(bias);
  return all;
}

Tensor ColumnParallelLinear::checked_weight(const Tensor& given) const {
  if (!given.defined()) {
    if (weight.defined()) return weight;
    wrong_layer(
        "weight was not supplied to ColumnParallelLinear forward pass and "
        "skip_weight_param_allocation is True.");
  }
  const Shape expected{options_.in_features, options_.out_features / world_size_};
  if (given.shape() != expected) {
    wrong_layer(fmt::format("supplied weight's shape is {}, not {} as expected",
                            to_string(given.shape()), to_string(expected)));
  }
  return given;
}

Tensor ColumnParallelLinear::forward(const Tensor& x, const Tensor& given_weight,
                                     std::optional<bool> gather_output, Location location) const {
  return forward_with_bias(x, given_weight, gather_output, location).first;
}

std::pair<Tensor, Tensor> ColumnParallelLinear::forward_with_bias(const Tensor& x,
                                                                  const Tensor& given_weight,
                                                                  std::optional<bool> gather_output,
                                                                  Location location) const {
  const Tensor none;
  const Tensor& own_bias = bias;
  // With one rank there is nobody to share a sequence with.
  const bool is_sequence_parallel = options_.sequence_parallel && world_size_ > 1;
  const bool gathers = gather_output.value_or(options_.gather_output);
  if (is_sequence_parallel && gathers) refuse_to_gather();
  const Tensor matrix = checked_weight(given_weight);
  Tensor y = linear_with_grad_accumulation_and_async_allreduce(
      torch_, options_.dtype ? x : layer_input(x, matrix), matrix,
      options_.skip_bias_add ? none : own_bias,
      {.group = {group_, location},
       .allreduce_dgrad = !options_.disable_grad_reduce,
       .sequence_parallel = is_sequence_parallel,
       .overlap = options_.async_tensor_model_parallel_allreduce,
       .blocks = {WeightBlocks::Cut::columns, blocks_}});
  if (gathers) {
    y = gather_from_tensor_model_parallel_region(torch_, y, {group_, location});
  }
  return {y, options_.skip_bias_add ? own_bias : none};
}

}  // namespace kernbench::tp
