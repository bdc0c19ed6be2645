#include "tp/mappings.h"

#include <string_view>
#include <utility>
#include <vector>

#include "runtime/autograd/autograd.h"
#include "tp/parallel_state.h"
#include "tp/primitives.h"
#include "tp/slices.h"

namespace kernbench::tp {

namespace {

using Primitive = Tensor (*)(RuntimeContext&, const Tensor&, const ProcessGroup&);

ProcessGroup group_or_default(RuntimeContext& torch, const OptionalGroup& group) {
  return group ? *group : get_tensor_model_parallel_group(torch);
}

// What each mapping along a dimension begins with.
void check_has_dimensions(const RuntimeContext& torch, std::string_view name, const Tensor& x) {
  torch.check_on_device(x, name);
  if (x.shape().rank() == 0) {
    ops::refuse_shapes(name, "a tensor of no dimensions has neither rows nor columns");
  }
}

// A mapping of one input whose gradient is mapped by another primitive.
Tensor mapped(std::string_view name, RuntimeContext& torch, const Tensor& x,
              const OptionalGroup& given, Primitive forward, Primitive backward) {
  check_has_dimensions(torch, name, x);
  const ProcessGroup group = group_or_default(torch, given);
  return autograd::record(name, forward(torch, x, group), {x},
                          [&torch, group, backward](const Tensor& dy) {
                            return std::vector{backward(torch, dy, group)};
                          });
}

}  // namespace

Tensor copy_to_tensor_model_parallel_region(RuntimeContext& torch, const Tensor& x,
                                            const OptionalGroup& group) {
  constexpr std::string_view kName = "copy_to_tensor_model_parallel_region";
  torch.check_on_device(x, kName);
  return autograd::record(
      kName, x, {x}, [&torch, group = group_or_default(torch, group)](const Tensor& dy) {
        return std::vector{reduce_consumed(torch, dy, group, Issue::blocking).tensor};
      });
}

Tensor reduce_from_tensor_model_parallel_region(RuntimeContext& torch, Tensor x,
                                                const OptionalGroup& group) {
  constexpr std::string_view kName = "reduce_from_tensor_model_parallel_region";
  torch.check_on_device(x, kName);
  const Tensor sum =
      reduce_consumed(torch, x, group_or_default(torch, group), Issue::blocking).tensor;
  return autograd::record(kName, sum, {x}, [](const Tensor& dy) { return std::vector{dy}; });
}

Tensor scatter_to_tensor_model_parallel_region(RuntimeContext& torch, const Tensor& x,
                                               const OptionalGroup& group) {
  return mapped("scatter_to_tensor_model_parallel_region", torch, x, group, split_along_last_dim,
                gather_along_last_dim);
}

// The gradient lies as x does, of which each PE may have had a part of the columns.
Tensor gather_from_tensor_model_parallel_region(RuntimeContext& torch, const Tensor& x,
                                                const OptionalGroup& group) {
  constexpr std::string_view kName = "gather_from_tensor_model_parallel_region";
  check_has_dimensions(torch, kName, x);
  const ProcessGroup members = group_or_default(torch, group);
  const std::size_t last = x.shape().rank() - 1;
  const std::int64_t size = x.shape()[last];
  const std::int64_t begin = torch.distributed.get_rank(members) * size;
  const ops::Placement placement = ops::gradient_placement(ops::placement_of(x));
  return autograd::record(kName, gather_along_last_dim(torch, x, members), {x},
                          [last, begin, size, placement](const Tensor& dy) {
                            return std::vector{slice(dy, last, begin, size, placement)};
                          });
}

Tensor scatter_to_sequence_parallel_region(RuntimeContext& torch, const Tensor& x,
                                           const OptionalGroup& group) {
  return mapped("scatter_to_sequence_parallel_region", torch, x, group, split_along_first_dim,
                gather_along_first_dim);
}

Tensor gather_from_sequence_parallel_region(RuntimeContext& torch, const Tensor& x,
                                            bool tensor_parallel_output_grad,
                                            const OptionalGroup& group) {
  return mapped("gather_from_sequence_parallel_region", torch, x, group, gather_along_first_dim,
                tensor_parallel_output_grad ? Primitive(reduce_scatter_along_first_dim)
                                            : Primitive(split_along_first_dim));
}

Tensor reduce_scatter_to_sequence_parallel_region(RuntimeContext& torch, const Tensor& x,
                                                  const OptionalGroup& group) {
  return mapped("reduce_scatter_to_sequence_parallel_region", torch, x, group,
                reduce_scatter_along_first_dim, gather_along_first_dim);
}

Tensor all_gather_last_dim_from_tensor_parallel_region(RuntimeContext& torch, const Tensor& x,
                                                       const OptionalGroup& group) {
  return mapped("all_gather_last_dim_from_tensor_parallel_region", torch, x, group,
                gather_along_last_dim, reduce_scatter_along_last_dim);
}

Tensor reduce_scatter_last_dim_to_tensor_parallel_region(RuntimeContext& torch, const Tensor& x,
                                                         const OptionalGroup& group) {
  return mapped("reduce_scatter_last_dim_to_tensor_parallel_region", torch, x, group,
                reduce_scatter_along_last_dim, gather_along_last_dim);
}

Tensor all_to_all(RuntimeContext& torch, const ProcessGroup& group, const Tensor& x,
                  std::span<const std::int64_t> output_split_sizes,
                  std::span<const std::int64_t> input_split_sizes) {
  check_has_dimensions(torch, "all_to_all", x);
  const std::vector<std::int64_t> outputs(output_split_sizes.begin(), output_split_sizes.end());
  const std::vector<std::int64_t> inputs(input_split_sizes.begin(), input_split_sizes.end());
  return autograd::record(
      "all_to_all", exchange_along_first_dim(torch, x, group, outputs, inputs), {x},
      [&torch, group, outputs, inputs](const Tensor& dy) {
        return std::vector{exchange_along_first_dim(torch, dy, group, inputs, outputs)};
      });
}

Tensor all_to_all_sp2hp(RuntimeContext& torch, const Tensor& x, const OptionalGroup& group) {
  return mapped("all_to_all_sp2hp", torch, x, group, exchange_rows_for_columns,
                exchange_columns_for_rows);
}

Tensor all_to_all_hp2sp(RuntimeContext& torch, const Tensor& x, const OptionalGroup& group) {
  return mapped("all_to_all_hp2sp", torch, x, group, exchange_columns_for_rows,
                exchange_rows_for_columns);
}

}  // namespace kernbench::tp
