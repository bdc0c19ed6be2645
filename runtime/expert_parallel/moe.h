// A layer of experts, of which each rank of a group has some.
//
//   const auto mesh = torch.distributed.init_device_mesh("ahbm", {4}, {"ep"});
//   kb::nn::MoE moe(torch, kb::moe::MoEOptions{.dim = 1024, .hidden_dim = 4096, .num_experts = 64,
//                                              .router = {.top_k = 8, .route_norm = true},
//                                              .dispatch = {.group = mesh.get_group()}});
//   const kb::Tensor y = moe(x);

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/expert_parallel/expert_parallel.h"
#include "runtime/expert_parallel/routing_load.h"
#include "runtime/nn/layers.h"
#include "runtime/nn/module.h"

namespace kernbench::moe {

// Names are torchtitan's MoEArgs and FeedForward's, but for `dispatch`.
struct MoEOptions {
  std::int64_t dim = 1;         // features of a token
  std::int64_t hidden_dim = 1;  // of an expert
  std::int64_t num_experts = 8;
  std::int64_t num_shared_experts = 0;  // which all tokens go to: one of so many times hidden_dim
  // w2(silu(w1 x) * (w3 x)), as Llama's blocks; else w2(relu(w1 x)).
  bool is_gated = true;
  RouterOptions router = {};
  DispatchOptions dispatch = {};
  // A load takes the place of the router's choice, and of dispatch.experts; the choice's time
  // stays, and weights stay the router's.  Calls do not count steps: set_step() tells the layer.
  // In a run without values, where there is no choice, W0 does, unless there are dispatch.experts.
  std::optional<RoutingLoad> load = {};
  std::uint64_t seed = 0;
  std::int64_t step = 0;
  std::int64_t load_tokens = 0;  // LoadShape::tokens; 0: as many as the rank's input has
};

}  // namespace kernbench::moe

namespace kernbench::nn {

// One expert, or the shared ones, without biases: w1, w3 [hidden_dim, dim], w2 [dim, hidden_dim].
struct ExpertImpl : Module {
  ExpertImpl(const RuntimeContext& torch, const moe::MoEOptions& options, std::int64_t hidden_dim,
             const TensorOptions& tensors);
  Tensor forward(const Tensor& x) const;

  Tensor w1;
  Tensor w2;
  Tensor w3;  // undefined without a gate
};
KERNBENCH_MODULE(Expert);

// The sum of each token's experts, times its weights, and of the shared experts: x [..., dim],
// and so is the result.  Parameters are router.weight [num_experts, dim], experts.N.w1, w2, w3 of
// this rank's experts by their numbers among all, shared_experts.w1, ...: the states of all ranks
// together are that of one rank alone.  The experts' products are grouped_mm()s.
//
// Each rank has its own tokens, row by row on its PEs, and parameters that these share
// (DPPolicy::shared), or all lie on one PE.  Gradients of the experts are the sums over all ranks'
// tokens; the router's and the shared experts' are of the rank's own tokens, and are reduced over
// the group: summed by all_reduce, so that all are the gradients of the sum of the ranks' losses.
// For the mean of the losses a DistributedDataParallel that ignores the parameters `experts.N...`
// (_set_params_and_buffers_to_ignore_for_model), or fully_shard() with them as ignored_params,
// averages the others, and the experts' gradients are divided by the number of ranks.
// Throws CollectiveError KB-C029 as dispatch() and route() do.
class MoEImpl : public Module {
 public:
  MoEImpl(const RuntimeContext& torch, const moe::MoEOptions& options,
          const TensorOptions& tensors = {});

  Tensor forward(const Tensor& x);

  // The step of the load from now on, which its calls share, also those that checkpoint() repeats:
  // the next dispatch() throws CollectiveError KB-C029 if it is negative.
  void set_step(std::int64_t step) { options_.step = step; }

  // The parts of forward(), of x [tokens, dim]: who times them calls them one by one.
  moe::Dispatched dispatch(const Tensor& x);
  Tensor compute_experts(const moe::Dispatched& sent) const;
  Tensor compute_shared(const Tensor& x) const;  // undefined without shared experts

  // The numbers of the last forward() or dispatch(); throws CollectiveError KB-C029 if there was
  // none.
  moe::ExchangeSizes last_sizes() const;

 private:
  moe::LoadShape shape_of_load(std::int64_t tokens) const;

  const RuntimeContext& torch_;
  moe::MoEOptions options_;
  int ranks_ = 1;
  int rank_ = 0;
  Linear router_ = nullptr;
  std::vector<Expert> experts_;
  Expert shared_ = nullptr;
  std::optional<moe::ExchangeSizes> last_;
};
KERNBENCH_MODULE(MoE);

}  // namespace kernbench::nn
