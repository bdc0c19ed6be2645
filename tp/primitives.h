// The primitives of the mappings: communication over a group without autograd, for use in forward
// and in backward (the functions with an underscore of megatron.core.tensor_parallel.mappings).
//
// "First" and "last" are dimensions of the tensor.  In a group of one rank all return x itself, but
// those that communicate also sum an x that is partial inside the device.  Sizes that the group
// does not divide are refused in Megatron's words (CollectiveError KB-T001).

#pragma once

#include <cstdint>
#include <span>

#include "tp/parallel_state.h"

namespace kernbench::tp {

// A tensor that a collective may still be writing.
struct Pending {
  Tensor tensor;
  distributed::Work work = {};  // none: the elements are complete

  // Waits for them.
  const Tensor& wait() const {
    if (work.defined()) work.wait();
    return tensor;
  }
};

enum class Issue : bool { blocking, async };

// The sum over ranks.
Tensor reduce(RuntimeContext& torch, const Tensor& x, const CallGroup& group);
// Like reduce(), for an x that the caller no longer needs: the sum reuses x's memory unless there
// are other handles to it.
Pending reduce_consumed(RuntimeContext& torch, const Tensor& x, const CallGroup& group,
                        Issue issue);

// This rank's part of x.
Tensor split_along_first_dim(RuntimeContext& torch, const Tensor& x, const CallGroup& group);
Tensor split_along_last_dim(RuntimeContext& torch, const Tensor& x, const CallGroup& group);

// The concatenation of all ranks' x.
Tensor gather_along_first_dim(RuntimeContext& torch, const Tensor& x, const CallGroup& group);
Pending gather_along_first_dim(RuntimeContext& torch, const Tensor& x, const CallGroup& group,
                               Issue issue);
// These do the same, and the result is not cut along that dimension inside the device either.
Tensor gather_whole_along_first_dim(RuntimeContext& torch, const Tensor& x, const CallGroup& group);
Tensor gather_along_last_dim(RuntimeContext& torch, const Tensor& x, const CallGroup& group);

// This rank's part of the sum over ranks.
Tensor reduce_scatter_along_first_dim(RuntimeContext& torch, const Tensor& x,
                                      const CallGroup& group);
Pending reduce_scatter_along_first_dim(RuntimeContext& torch, const Tensor& x,
                                       const CallGroup& group, Issue issue);
Tensor reduce_scatter_along_last_dim(RuntimeContext& torch, const Tensor& x,
                                     const CallGroup& group);

// Exchanges parts of the first dimension: part r goes to rank r.  The parts have the given sizes,
// or equal sizes if none are given.
Tensor exchange_along_first_dim(RuntimeContext& torch, const Tensor& x, const CallGroup& group,
                                std::span<const std::int64_t> output_split_sizes = {},
                                std::span<const std::int64_t> input_split_sizes = {});

// [tokens / W, hidden] -> [tokens, hidden / W]: all ranks' tokens, this rank's columns; and back.
Tensor exchange_rows_for_columns(RuntimeContext& torch, const Tensor& x, const CallGroup& group);
Tensor exchange_columns_for_rows(RuntimeContext& torch, const Tensor& x, const CallGroup& group);

}  // namespace kernbench::tp
