#include "benches/moe/measured_moe.h"

#include <algorithm>

#include "benches/train/timed_ranks.h"
#include "runtime/autograd/autograd.h"
#include "runtime/expert_parallel/moe.h"
#include "runtime/functional/operators.h"
#include "runtime/torch/runtime_context.h"

namespace kernbench::benches::moe {

namespace {

using kernbench::moe::Dispatched;
using kernbench::moe::MoEOptions;

MoEOptions options_of(const MoeInput& input, const distributed::ProcessGroup& group) {
  return {.dim = input.hidden,
          .hidden_dim = input.ffn,
          .num_experts = input.experts,
          .num_shared_experts = input.shared,
          .is_gated = input.is_gated,
          .router = {.top_k = input.top_k, .route_norm = true},
          .dispatch = {.group = group,
                       .capacity_factor = input.capacity_factor,
                       .pad_to_capacity = input.pad,
                       .drop_policy = input.policy,
                       .routing = input.reader},
          .load = input.load,
          .seed = input.seed,
          .step = input.step,
          .load_tokens = input.tokens};
}

class MoeOfRank {
 public:
  MoeOfRank(RuntimeContext& torch, const MoeInput& input, int rank)
      : torch_(torch),
        input_(input),
        mesh_(torch.distributed.init_device_mesh("ahbm", {input.ranks}, {"ep"})),
        layer_(torch, options_of(input, mesh_.get_group()),
               {.dtype = input.dtype, .dp = input.on.weights()}),
        x_(make_rows(rank)),
        gradient_(make_rows(rank)) {
    if (input.has_backward) x_.requires_grad_();
  }

  MoeRank run() {
    const auto run_forward = [&] {
      if (input_.has_backward) return forward();
      const NoGradGuard no_grad(torch_);
      return forward();
    };
    const Tensor y = run_forward();
    if (input_.has_backward) y.backward(gradient_);
    torch_.ahbm.synchronize();
    return own_;
  }

 private:
  Tensor make_rows(int rank) const {
    return torch_.zeros({input_.load.tokens(input_.load_shape(), rank), input_.hidden},
                        {.dtype = input_.dtype, .dp = input_.on.tokens()});
  }
  Time now() const {
    torch_.ahbm.synchronize();
    return torch_.engine().now();
  }

  Tensor forward() {
    own_.dispatch.begin = now();
    const Dispatched sent = layer_->dispatch(x_);
    own_.dispatch.end = own_.experts.begin = now();
    const Tensor shared = layer_->compute_shared(x_);
    const Tensor y = layer_->compute_experts(sent);
    own_.experts.end = own_.combine.begin = now();
    const Tensor combined = kernbench::moe::combine(y, sent.handle);
    const Tensor sum = shared.defined() ? combined + shared : combined;
    own_.combine.end = now();
    own_.sizes = layer_->last_sizes();
    own_.rows = sent.recv_x.size(0);
    return sum;
  }

  RuntimeContext& torch_;
  const MoeInput& input_;
  const distributed::DeviceMesh mesh_;
  nn::MoE layer_;
  Tensor x_;
  Tensor gradient_;
  MoeRank own_;
};

MeasuredMoe measure_on(RuntimeContext& torch, const MoeInput& input) {
  return train::run_timed_ranks<MeasuredMoe, MoeOfRank>(torch, input, "moe");
}

}  // namespace

Time MeasuredMoe::dispatch() const {
  const auto begin_of = [](const MoeRank& rank) { return rank.dispatch.begin; };
  const auto end_of = [](const MoeRank& rank) { return rank.dispatch.end; };
  return end_of(std::ranges::max(ranks, {}, end_of)) -
         begin_of(std::ranges::min(ranks, {}, begin_of));
}

Time MeasuredMoe::combine() const {
  const auto begin_of = [](const MoeRank& rank) { return rank.combine.begin; };
  const auto end_of = [](const MoeRank& rank) { return rank.combine.end; };
  return end_of(std::ranges::max(ranks, {}, end_of)) -
         begin_of(std::ranges::max(ranks, {}, begin_of));
}

Time MeasuredMoe::experts() const {
  const auto length_of = [](const MoeRank& rank) { return rank.experts.length(); };
  return length_of(std::ranges::max(ranks, {}, length_of));
}

Time MeasuredMoe::host_reads() const {
  const auto time_of = [](const MoeRank& rank) { return rank.sizes.host_reads; };
  return time_of(std::ranges::max(ranks, {}, time_of));
}

MeasuredMoe measure_moe(PointContext& point, const MoeInput& input) {
  const auto torch =
      point.make_context(with_sips(point.bench().topology(), input.ranks),
                         {.ccl = point.bench().ccl(), .data = false, .energy = true});
  return measure_on(*torch, input);
}

}  // namespace kernbench::benches::moe
