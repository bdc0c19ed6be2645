// The matrix product on which both linear layers are built (megatron.core.tensor_parallel.layers).

#pragma once

#include "tp/call_group.h"

namespace kernbench::tp {

struct LinearCommunication {
  CallGroup group = distributed::ProcessGroup();
  bool allreduce_dgrad = false;    // the gradient of the input is a sum over ranks
  bool sequence_parallel = false;  // each rank has a part of the input's first dimension
  // True if the communication of the input's gradient overlaps the product for the weight's
  // gradient (else it is waited for first).
  bool overlap = true;
};

// y = x w + bias, for x [..., in], w [in, out] and a bias [out] or none (undefined).
//
// sequence_parallel: x [s / W, ..., in], y [s, ..., out].
// Communication, forward:   sequence_parallel: all_gather(x)
//                backward:  dy w^T; all_reduce of it, beside x^T dy
//                           sequence_parallel: all_gather(x), beside dy w^T; then reduce_scatter of
//                           that, beside x^T dy.  The gathered x is not kept from forward.
// Only gradients that are needed are computed: with a frozen weight, the input's alone
// (linear_with_frozen_weight).  Tensors that no gradient needs are not kept.  Throws DeviceError
// KB-M001, KB-M019 or KB-M013 for a tensor that is undefined, on the host, or of another context.
Tensor linear_with_grad_accumulation_and_async_allreduce(RuntimeContext& torch, const Tensor& x,
                                                         const Tensor& weight, const Tensor& bias,
                                                         const LinearCommunication& communication);

}  // namespace kernbench::tp
