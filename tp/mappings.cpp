#include "tp/mappings.h"

#include <string_view>
#include <vector>

#include "runtime/autograd/autograd.h"
#include "runtime/functional/shape_operators.h"
#include "tp/layer_input.h"
#include "tp/parameter.h"
#include "tp/primitives.h"
#include "tp/slices.h"

namespace kernbench::tp {

namespace {

using Primitive = Tensor (*)(RuntimeContext&, const Tensor&, const CallGroup&);

// The check with which every mapping along a dimension begins.
void check_has_dimensions(const RuntimeContext& torch, std::string_view name, const Tensor& x) {
  torch.check_on_device(x, name);
  if (x.shape().rank() == 0) {
    ops::refuse_shapes(name, "a tensor of no dimensions has neither rows nor columns");
  }
}

// A mapping of one input by `forward`.  The gradient is mapped by `backward` and placed like x.
Tensor mapped(std::string_view name, RuntimeContext& torch, const Tensor& of,
              const OptionalCallGroup& given, Primitive forward, Primitive backward) {
  check_has_dimensions(torch, name, of);
  const Tensor x = contiguous(of);
  const CallGroup group = given.get(torch);
  const auto gradient = [&torch, group, backward, of_x = ops::placement_of(x)](const Tensor& dy) {
    return std::vector{gradient_like(backward(torch, dy, group), of_x)};
  };
  return autograd::record(name, forward(torch, x, group), {x}, gradient);
}

// Gathers all ranks' x, from which every rank computes the same: x's gradient is this rank's part
// of the result's gradient.
Tensor gathered(std::string_view name, RuntimeContext& torch, const Tensor& of,
                const OptionalCallGroup& given, bool is_first_dim) {
  check_has_dimensions(torch, name, of);
  const Tensor x = contiguous(of);
  const CallGroup group = given.get(torch);
  const std::size_t dim = is_first_dim ? 0 : x.shape().rank() - 1;
  const std::int64_t size = x.shape()[dim];
  const std::int64_t begin = torch.distributed.get_rank(group.group) * size;
  const auto gradient = [dim, begin, size, of_x = ops::placement_of(x)](const Tensor& dy) {
    return std::vector{slice_of_gradient(dy, dim, begin, size, of_x)};
  };
  return autograd::record(name,
                          is_first_dim ? gather_whole_along_first_dim(torch, x, group)
                                       : gather_along_last_dim(torch, x, group),
                          {x}, gradient);
}

// The inverse of taking this rank's columns.  In a group of one rank nothing is moved, so dy may
// stay cut over the PEs.
Tensor all_columns(RuntimeContext& torch, const Tensor& dy, const CallGroup& group) {
  const bool is_alone = torch.distributed.get_world_size(group.group) == 1;
  if (is_alone && !ops::placement_of(dy).is_partial()) return dy;
  return gather_along_last_dim(torch, dy, group);
}

}  // namespace

Tensor copy_to_tensor_model_parallel_region(RuntimeContext& torch, const Tensor& x,
                                            const OptionalCallGroup& group) {
  constexpr std::string_view kName = "copy_to_tensor_model_parallel_region";
  torch.check_on_device(x, kName);
  return autograd::record(kName, x, {x}, [&torch, group = group.get(torch)](const Tensor& dy) {
    return std::vector{reduce_consumed(torch, dy, group, Issue::blocking).tensor};
  });
}

Tensor reduce_from_tensor_model_parallel_region(RuntimeContext& torch, Tensor x,
                                                const OptionalCallGroup& group) {
  constexpr std::string_view kName = "reduce_from_tensor_model_parallel_region";
  torch.check_on_device(x, kName);
  x = contiguous(x);
  const ops::Placement of_x = ops::placement_of(x);
  const Tensor sum = reduce_consumed(torch, x, group.get(torch), Issue::blocking).tensor;
  return autograd::record(
      kName, sum, {x}, [of_x](const Tensor& dy) { return std::vector{gradient_like(dy, of_x)}; });
}

Tensor scatter_to_tensor_model_parallel_region(RuntimeContext& torch, const Tensor& x,
                                               const OptionalCallGroup& group) {
  return mapped("scatter_to_tensor_model_parallel_region", torch, x, group, split_along_last_dim,
                all_columns);
}

Tensor scatter_columns_over_holders(RuntimeContext& torch, const Tensor& of,
                                    const ops::Placement& placement,
                                    const OptionalCallGroup& given) {
  constexpr std::string_view kName = "scatter_to_tensor_model_parallel_region";
  check_has_dimensions(torch, kName, of);
  const Tensor x = contiguous(of);
  const CallGroup group = given.get(torch);
  const ops::Placement of_x = ops::placement_of(x);
  if (of_x == placement)
    return scatter_to_tensor_model_parallel_region(torch, x, {group.group, group.location});
  const std::size_t last = x.shape().rank() - 1;
  const std::int64_t size = divide(x.shape()[last], torch.distributed.get_world_size(group.group));
  const std::int64_t begin = torch.distributed.get_rank(group.group) * size;
  return autograd::record(
      kName, slice(x, last, begin, size, placement), {x}, [&torch, group, of_x](const Tensor& dy) {
        return std::vector{gradient_like(gather_along_last_dim(torch, dy, group), of_x)};
      });
}

Tensor gather_from_tensor_model_parallel_region(RuntimeContext& torch, const Tensor& x,
                                                const OptionalCallGroup& group) {
  return gathered("gather_from_tensor_model_parallel_region", torch, x, group, false);
}

Tensor scatter_to_sequence_parallel_region(RuntimeContext& torch, const Tensor& x,
                                           const OptionalCallGroup& group) {
  return mapped("scatter_to_sequence_parallel_region", torch, x, group, split_along_first_dim,
                gather_along_first_dim);
}

Tensor gather_from_sequence_parallel_region(RuntimeContext& torch, const Tensor& x,
                                            bool tensor_parallel_output_grad,
                                            const OptionalCallGroup& group) {
  constexpr std::string_view kName = "gather_from_sequence_parallel_region";
  if (!tensor_parallel_output_grad) return gathered(kName, torch, x, group, true);
  return mapped(kName, torch, x, group, gather_along_first_dim, reduce_scatter_along_first_dim);
}

Tensor reduce_scatter_to_sequence_parallel_region(RuntimeContext& torch, const Tensor& x,
                                                  const OptionalCallGroup& group) {
  return mapped("reduce_scatter_to_sequence_parallel_region", torch, x, group,
                reduce_scatter_along_first_dim, gather_along_first_dim);
}

Tensor all_gather_last_dim_from_tensor_parallel_region(RuntimeContext& torch, const Tensor& x,
                                                       const OptionalCallGroup& group) {
  return mapped("all_gather_last_dim_from_tensor_parallel_region", torch, x, group,
                gather_along_last_dim, reduce_scatter_along_last_dim);
}

Tensor reduce_scatter_last_dim_to_tensor_parallel_region(RuntimeContext& torch, const Tensor& x,
                                                         const OptionalCallGroup& group) {
  return mapped("reduce_scatter_last_dim_to_tensor_parallel_region", torch, x, group,
                reduce_scatter_along_last_dim, all_columns);
}

Tensor all_to_all(RuntimeContext& torch, const CallGroup& group, const Tensor& of,
                  std::span<const std::int64_t> output_split_sizes,
                  std::span<const std::int64_t> input_split_sizes) {
  check_has_dimensions(torch, "all_to_all", of);
  const Tensor x = contiguous(of);
  const std::vector<std::int64_t> outputs(output_split_sizes.begin(), output_split_sizes.end());
  const std::vector<std::int64_t> inputs(input_split_sizes.begin(), input_split_sizes.end());
  const auto gradient = [&torch, group, outputs, inputs,
                         of_x = ops::placement_of(x)](const Tensor& dy) {
    return std::vector{
        gradient_like(exchange_along_first_dim(torch, dy, group, inputs, outputs), of_x)};
  };
  return autograd::record("all_to_all", exchange_along_first_dim(torch, x, group, outputs, inputs),
                          {x}, gradient);
}

Tensor all_to_all_sp2hp(RuntimeContext& torch, const Tensor& x, const OptionalCallGroup& group) {
  return mapped("all_to_all_sp2hp", torch, x, group, exchange_rows_for_columns,
                exchange_columns_for_rows);
}

Tensor all_to_all_hp2sp(RuntimeContext& torch, const Tensor& x, const OptionalCallGroup& group) {
  return mapped("all_to_all_hp2sp", torch, x, group, exchange_columns_for_rows,
                exchange_rows_for_columns);
}

}  // namespace kernbench::tp
