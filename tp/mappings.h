// megatron.core.tensor_parallel.mappings: communication as an operator, with its gradient.
//
//   function                                    forward                    backward
//   copy_to_tensor_model_parallel_region        -                          sum over ranks
//   reduce_from_tensor_model_parallel_region    sum over ranks             -
//   scatter_to_tensor_model_parallel_region     this rank's columns        all ranks' columns
//   gather_from_tensor_model_parallel_region    all ranks' columns         this rank's columns
//   scatter_to_sequence_parallel_region         this rank's rows           all ranks' rows
//   gather_from_sequence_parallel_region        all ranks' rows            this rank's rows of the
//                                                                          sum, or of its own
//   reduce_scatter_to_sequence_parallel_region  this rank's rows of a sum  all ranks' rows
//   all_gather_last_dim_from_...                all ranks' columns         ... columns of the sum
//   reduce_scatter_last_dim_to_...              ... columns of a sum       all ranks' columns
//   all_to_all                                  part r goes to rank r      back again
//
// Columns are the last dimension, rows the first.  `group`: by default the caller's tensor model
// parallel group.  In a group of one rank nothing is sent, but mappings that form a sum also sum a
// tensor that is partial inside the device (ADR-0133).
//
// Inside the device the gradient of x is placed like x.  A scatter of rows that PEs share moves
// them between PEs.  KB-F003 is thrown for a scatter of columns or an exchange among several ranks
// along a dimension that is cut over PEs, and in backward for a partial gradient of an x that is
// cut over the PEs or partial.
//
// Unlike these, a collective of torch.distributed has no gradient: the gradients of other ranks'
// inputs would be lost.
//
// All throw CollectiveError KB-T001, in Megatron's words, for a size that the group does not
// divide, KB-T002 without groups, and what torch.distributed throws; DeviceError KB-M001, KB-M019,
// KB-M013 for a tensor that is undefined, on the host or of another context, KB-F001 for a tensor
// without dimensions where rows or columns are needed.

#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>

#include "runtime/torch/runtime_context.h"
#include "tp/parallel_state.h"

namespace kernbench::tp {

Tensor copy_to_tensor_model_parallel_region(RuntimeContext& torch, const Tensor& x,
                                            const OptionalCallGroup& group = Location::current());
// The sum is written into x if the caller moves x in and has no other handle to it; else x is
// unchanged.
Tensor reduce_from_tensor_model_parallel_region(
    RuntimeContext& torch, Tensor x, const OptionalCallGroup& group = Location::current());
Tensor scatter_to_tensor_model_parallel_region(
    RuntimeContext& torch, const Tensor& x, const OptionalCallGroup& group = Location::current());
// The result is not cut along its columns inside the device.
Tensor gather_from_tensor_model_parallel_region(
    RuntimeContext& torch, const Tensor& x, const OptionalCallGroup& group = Location::current());

Tensor scatter_to_sequence_parallel_region(RuntimeContext& torch, const Tensor& x,
                                           const OptionalCallGroup& group = Location::current());
// `tensor_parallel_output_grad`: true if the ranks compute different things from the result, so
// that its gradients must be summed (as in front of a ColumnParallelLinear); false if all compute
// the same.  A wrong value makes the gradient wrong by a factor of the group's size.  If false, the
// result is not cut along its rows inside the device.
Tensor gather_from_sequence_parallel_region(RuntimeContext& torch, const Tensor& x,
                                            bool tensor_parallel_output_grad = true,
                                            const OptionalCallGroup& group = Location::current());
Tensor reduce_scatter_to_sequence_parallel_region(
    RuntimeContext& torch, const Tensor& x, const OptionalCallGroup& group = Location::current());

Tensor all_gather_last_dim_from_tensor_parallel_region(
    RuntimeContext& torch, const Tensor& x, const OptionalCallGroup& group = Location::current());
Tensor reduce_scatter_last_dim_to_tensor_parallel_region(
    RuntimeContext& torch, const Tensor& x, const OptionalCallGroup& group = Location::current());

// Exchanges parts of the first dimension, of the given sizes or equal ones: part r of x goes to
// rank r.
Tensor all_to_all(RuntimeContext& torch, const CallGroup& group, const Tensor& x,
                  std::span<const std::int64_t> output_split_sizes = {},
                  std::span<const std::int64_t> input_split_sizes = {});
// [tokens / W, hidden] -> [tokens, hidden / W], and back.
Tensor all_to_all_sp2hp(RuntimeContext& torch, const Tensor& x,
                        const OptionalCallGroup& group = Location::current());
Tensor all_to_all_hp2sp(RuntimeContext& torch, const Tensor& x,
                        const OptionalCallGroup& group = Location::current());

// megatron.core.tensor_parallel.data: one rank reads the data and broadcasts them to its group.

using TensorDict = std::map<std::string, Tensor, std::less<>>;

// For each key, every rank of the group gets data[key] of the group's first rank, as a tensor of
// type `dtype` on its device (one copy).  The `data` of the other ranks is ignored.  Communication:
// the shapes as objects, then one broadcast of all elements.  `tp_group`: by default the caller's
// tensor model parallel group.  Throws CollectiveError KB-T005 if a key is missing, or a tensor on
// a device has another type.
TensorDict broadcast_data(RuntimeContext& torch, std::span<const std::string> keys,
                          const TensorDict& data, DType dtype,
                          const std::optional<distributed::ProcessGroup>& tp_group = std::nullopt);

}  // namespace kernbench::tp
