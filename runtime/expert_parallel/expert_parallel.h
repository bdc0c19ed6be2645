// Mixture of experts whose experts lie on the ranks of a group: the router, and how tokens come to
// their experts and back.  moe.h has the layer; these are its parts, by DeepEP's names.
//
//   const kb::moe::Routed routed = kb::moe::route(gate(x), {.top_k = 2});
//   kb::moe::Dispatched sent = kb::moe::dispatch(x, routed.topk_idx, routed.topk_weights,
//                                                num_experts, {.group = ep});
//   const kb::Tensor y = F::grouped_mm(sent.recv_x, sent.num_recv_tokens_per_expert_list, weights);
//   const kb::Tensor out = kb::moe::combine(y, sent.handle);

#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "runtime/distributed/process_group.h"
#include "runtime/tensor/tensor.h"
#include "sim_engine/base/units.h"

namespace kernbench::moe {

// The function of the logits that makes the weights of experts (torchtitan's score_func).
enum class ScoreFunc : std::uint8_t { softmax, sigmoid };

struct RouterOptions {
  std::int64_t top_k = 2;
  ScoreFunc score_func = ScoreFunc::softmax;
  // False: the softmax is over the logits of the experts chosen (Megatron's default, with
  // moe_router_pre_softmax false); of a sigmoid it is the same.
  bool pre_softmax = true;
  // Each token's weights are divided by their sum (torchtitan's route_norm, Hugging Face's
  // norm_topk_prob); of sigmoids by their sum + 1e-20, as torchtitan does.
  bool route_norm = false;
  double route_scale = 1;  // a factor of all weights
};

struct Routed {
  Tensor topk_idx;      // [tokens, top_k] in i64, of the most probable one first
  Tensor topk_weights;  // [tokens, top_k] in the logits' type; gradients flow through them
};

// Chooses the experts of each token from its logits [tokens, num_experts].  Throws CollectiveError
// KB-C029 for another shape, and for a top_k that is not from 1 to num_experts.
Routed route(const Tensor& logits, const RouterOptions& options = {});

// The tokens that an expert which is full does not take: those of the smallest weights, of equal
// ones the later; or the last ones (Megatron's moe_token_drop_policy).  In a run without values,
// which has no weights, both drop the last ones, and `probs` differs by the time in which the host
// reads the weights.
enum class DropPolicy : std::uint8_t { probs, position };
inline constexpr std::array kDropPolicies = {DropPolicy::probs, DropPolicy::position};
std::string_view name_of(DropPolicy policy);

// The reader of the router's choice.  A kernel's addresses cannot depend on values, and so the host
// reads it: top_k integers of each token come over the host link, in simulated time; so do
// the counts of what other ranks send, and the weights where a capacity drops by them.  `device`
// stands for a device that needs no host for that: nothing is charged.
enum class RoutingReader : std::uint8_t { host, device };
inline constexpr std::array kRoutingReaders = {RoutingReader::host, RoutingReader::device};
std::string_view name_of(RoutingReader reader);

struct DispatchOptions {
  distributed::ProcessGroup group = {};  // rank r has experts [r n, (r + 1) n), n = E / ranks
  // An expert takes ceil(tokens top_k capacity_factor / num_experts) tokens of each rank at most
  // (Megatron's moe_expert_capacity_factor); without one it takes all (dropless).
  std::optional<double> capacity_factor = {};
  // Each rank sends each expert as many rows as its capacity, zeros behind the tokens (Megatron's
  // moe_pad_expert_input_to_capacity).  Sizes are known beforehand: no counts are exchanged.
  // REQUIRES: all ranks of the group have as many tokens, and so one capacity
  bool pad_to_capacity = false;
  DropPolicy drop_policy = DropPolicy::probs;
  RoutingReader routing = RoutingReader::host;
  // Experts that take the place of topk_idx's, row by row, -1 for none: a load
  // (routing_load.h).  What the host reads is charged as before.
  std::optional<std::vector<std::int64_t>> experts = {};
};

// Returns ceil(slots factor / num_experts), for slots = tokens top_k of a rank: Megatron's
// get_capacity.  Throws CollectiveError KB-C029 if that is below 1.
std::int64_t expert_capacity(std::int64_t slots, std::int64_t num_experts, double factor);

// A dispatch, as combine() needs it.
struct Exchange;
using Handle = std::shared_ptr<const Exchange>;

struct Dispatched {
  // The rows that this rank's experts got, [n, hidden], those of an expert behind each other, in
  // the order of the ranks that sent them and of their tokens.
  Tensor recv_x;
  std::vector<std::int64_t> recv_topk_idx;  // [n], each row's expert, counted on this rank
  std::vector<std::int64_t> num_recv_tokens_per_expert_list;  // padding counts
  Handle handle;
};

// Sends each row of x [tokens, hidden] to the experts that topk_idx [tokens, top_k] has for it: one
// row for each pair, as Megatron's all-to-all dispatcher does.  The rows are put in the order of
// their experts by one kernel, counts are exchanged by all_to_all_single of E / ranks int32 a
// rank, rows by another one with these splits, and a kernel puts those of an expert together.
// Gradients of recv_x come back as combine() does it, and are summed up over a token's rows.
//
// topk_idx is a tensor on the device, or one of the host, whose elements are known there at no
// cost; an expert of -1 is none.  In a run without values a tensor on the device has no choice:
// give `experts`.  All ranks of the group call it.
// Throws CollectiveError KB-C029, in words of Megatron where it has any, on a rank outside of the
// group, for experts that the ranks do not divide, shapes that do not fit, experts that there are
// not, and capacities below 1; DeviceError KB-M001, KB-M013, KB-M019 for tensors that are
// undefined, of another context, or, but for topk_idx, on the host; KB-F003 for an x whose columns
// are cut, or that is partial.
Dispatched dispatch(const Tensor& x, const Tensor& topk_idx, const Tensor& topk_weights,
                    std::int64_t num_experts, const DispatchOptions& options = {});

// Returns for each token of dispatch() the sum of its experts' rows of y [n, hidden_out], which are
// in recv_x's order, times topk_weights: [tokens, hidden_out].  What was dropped counts as 0.
// Gradients flow to y and to the weights.  Throws CollectiveError KB-C029 for other rows and for no
// handle, and DeviceError for y as dispatch() does for x.
Tensor combine(const Tensor& y, const Handle& handle);

// The numbers of a dispatch on this rank.
struct ExchangeSizes {
  std::int64_t tokens = 0;
  std::int64_t top_k = 0;
  std::int64_t kept = 0;                         // pairs of a token and an expert that were sent
  std::int64_t capacity = 0;                     // 0: there is none
  std::vector<std::int64_t> sent_rows = {};      // to each rank, padding included
  std::vector<std::int64_t> received_rows = {};  // from each rank
  // The simulated time in which the choice, the counts and the weights came to the host.
  Time host_reads{0};
};
ExchangeSizes sizes_of(const Handle& handle);  // throws CollectiveError KB-C029 for none

}  // namespace kernbench::moe
