// torch.distributed.tensor.experimental.context_parallel: ranks share the tokens of each sequence.
//
//   const auto mesh = torch.distributed.init_device_mesh("ahbm", {2, 4}, {"dp", "cp"});
//   kb::experimental::set_rotate_method(torch, "alltoall");
//   kb::experimental::context_parallel(
//       mesh["cp"], {.buffers = {x, y}, .buffer_seq_dims = {1, 1}}, [&] {
//         // x and y have this rank's tokens here.
//         const kb::Tensor o = F::scaled_dot_product_attention(q, k, v, {.is_causal = true});
//         ...
//       });

#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "runtime/distributed/process_group.h"
#include "runtime/tensor/tensor.h"

namespace kernbench {
class RuntimeContext;
}

namespace kernbench::experimental {

// How the tokens of a sequence are dealt out to P ranks:
//   contiguous  rank r has the r-th of P parts; with a causal mask the last rank has the most work
//   head_tail   rank r has chunks r and 2 P - 1 - r of 2 P; with a causal mask all ranks have
//               equal work, in each step of a ring (torch's load balancer)
//   striped     rank r has tokens r, r + P, r + 2 P, ... (Striped Attention, arXiv 2311.09431)
enum class TokenOrder : std::uint8_t { contiguous, head_tail, striped };

inline constexpr std::array kTokenOrders = {TokenOrder::contiguous, TokenOrder::head_tail,
                                            TokenOrder::striped};

// "contiguous", "head_tail", "striped".
std::string_view name_of(TokenOrder order);

using Buffers = std::vector<std::reference_wrapper<Tensor>>;

struct ContextParallelOptions {
  // The same whole tensors on all ranks, and the dimensions of their tokens.
  Buffers buffers = {};
  std::vector<int> buffer_seq_dims = {};
  Buffers no_restore_buffers = {};  // of `buffers`: they keep the rank's tokens
  // Where buffers have a number of tokens that 2 P ranks do not divide, head_tail becomes
  // contiguous, with a warning; torch does so without one.
  TokenOrder order = TokenOrder::head_tail;
};

// Runs `body`, in which the buffers have the rank's tokens alone, and attention is over those of
// all ranks: scaled_dot_product_attention() of [..., h, s, d], and varlen_attn() of sequences of
// one length, whose parts each rank has.  Both take key and value of fewer heads.  They compute
// tile by tile, without scores in HBM.  A gradient may be computed after the body, but for that of
// checkpoint(), which calls the functions again.  All ranks of the mesh, which has one dimension,
// call it.
// Throws CollectiveError KB-C025, in torch's words where it has any, for buffers that do not fit;
// attention throws it for dropout, a mask, other numbers of keys than of rows, and tokens that the
// order cannot share, and for buffers that require gradients, which their parts would not have.
// Returns the order that the body had, for context_parallel_unshard().
TokenOrder context_parallel(const distributed::DeviceMesh& mesh,
                            const ContextParallelOptions& options,
                            const std::function<void()>& body);

// The same with heads instead of keys on the move (DeepSpeed-Ulysses, arXiv 2309.14509): each rank
// gets all tokens of some heads by all_to_all, and gives their output back.  Tokens are contiguous.
// Attention throws KB-C025 also where the ranks do not divide the heads of key and value.
void ulysses(const distributed::DeviceMesh& mesh, const ContextParallelOptions& options,
             const std::function<void()>& body);

// Chooses how context_parallel() moves keys and values, for the caller from now on: "alltoall"
// passes them from rank to rank while the ones before are computed with; "allgather" gathers them
// beside the first step.  The default is torch's, "allgather".  Throws CollectiveError KB-C025, in
// torch's words, for another method.
void set_rotate_method(RuntimeContext& torch, std::string_view rotate_method);

// Returns the whole tensors, on every rank, of those that have the ranks' tokens in this order.
// Throws CollectiveError KB-C025 for an odd number of tokens in head_tail, where a rank has two
// chunks.
std::vector<Tensor> context_parallel_unshard(const distributed::DeviceMesh& mesh,
                                             const std::vector<Tensor>& buffers,
                                             const std::vector<int>& seq_dims,
                                             TokenOrder order = TokenOrder::head_tail);

}  // namespace kernbench::experimental
