// What the mappings are made of: communication over a group that records nothing, so that it can be
// used in forward and in backward (the functions with an underscore of
// megatron.core.tensor_parallel.mappings).
//
// "First" and "last" are dimensions of the tensor.  In a group of one rank all give x itself; but
// what communicates makes a sum over holders inside the device (partial) whole there too.  Sizes
// that the group does not divide are refused in Megatron's words (CollectiveError KB-T001).

#pragma once

#include <cstdint>
#include <span>

#include "tp/call_group.h"

namespace kernbench::tp {

// A tensor whose elements may be on their way.
struct Pending {
  Tensor tensor;
  distributed::Work work = {};  // none: they are there

  // Waits for them.
  const Tensor& wait() const {
    if (work.defined()) work.wait();
    return tensor;
  }
};

enum class Issue : bool { blocking, async };

// The sum over ranks.
Tensor reduce(RuntimeContext& torch, const Tensor& x, const CallGroup& group);
// Of what the caller needs no more: in its memory, unless there are other handles to that.
Pending reduce_consumed(RuntimeContext& torch, const Tensor& x, const CallGroup& group,
                        Issue issue);

// This rank's part of x.
Tensor split_along_first_dim(RuntimeContext& torch, const Tensor& x, const CallGroup& group);
Tensor split_along_last_dim(RuntimeContext& torch, const Tensor& x, const CallGroup& group);

// All ranks' x, one after the other.
Tensor gather_along_first_dim(RuntimeContext& torch, const Tensor& x, const CallGroup& group);
Pending gather_along_first_dim(RuntimeContext& torch, const Tensor& x, const CallGroup& group,
                               Issue issue);
// Likewise, and not cut along that dimension inside the device either.
Tensor gather_whole_along_first_dim(RuntimeContext& torch, const Tensor& x, const CallGroup& group);
Tensor gather_along_last_dim(RuntimeContext& torch, const Tensor& x, const CallGroup& group);

// This rank's part of the sum over ranks.
Tensor reduce_scatter_along_first_dim(RuntimeContext& torch, const Tensor& x,
                                      const CallGroup& group);
Pending reduce_scatter_along_first_dim(RuntimeContext& torch, const Tensor& x,
                                       const CallGroup& group, Issue issue);
Tensor reduce_scatter_along_last_dim(RuntimeContext& torch, const Tensor& x,
                                     const CallGroup& group);

// Parts of the first dimension, of these sizes, exchanged: part r goes to rank r.  No sizes: equal
// ones.
Tensor exchange_along_first_dim(RuntimeContext& torch, const Tensor& x, const CallGroup& group,
                                std::span<const std::int64_t> output_split_sizes = {},
                                std::span<const std::int64_t> input_split_sizes = {});

// This rank's part of the elements of x, row by row, and the whole again, flat (Megatron's
// split_tensor_into_1d_equal_chunks and gather_split_1d_tensor).
Tensor split_tensor_into_1d_equal_chunks(RuntimeContext& torch, const Tensor& x,
                                         const CallGroup& group);
Tensor gather_split_1d_tensor(RuntimeContext& torch, const Tensor& x, const CallGroup& group);

// [tokens / W, hidden] -> [tokens, hidden / W]: all ranks' tokens, this rank's columns; and back.
Tensor exchange_rows_for_columns(RuntimeContext& torch, const Tensor& x, const CallGroup& group);
Tensor exchange_columns_for_rows(RuntimeContext& torch, const Tensor& x, const CallGroup& group);

}  // namespace kernbench::tp
