#include "benches/context/measured_context.h"

#include "benches/train/timed_ranks.h"
#include "runtime/autograd/autograd.h"
#include "runtime/context_parallel/context_parallel.h"
#include "runtime/functional/functional.h"
#include "runtime/torch/runtime_context.h"

namespace kernbench::benches::context {

std::string_view name_of(Method method) {
  constexpr std::array<std::string_view, kMethods.size()> kNames = {"alltoall", "allgather",
                                                                    "ulysses"};
  return kNames.at(static_cast<std::size_t>(method));
}

namespace {

class ContextRank {
 public:
  ContextRank(RuntimeContext& torch, const ContextInput& input, int rank)
      : torch_(torch),
        input_(input),
        rank_(rank),
        mesh_(torch.distributed.init_device_mesh("ahbm", {input.ranks}, {"cp"})),
        query_(make_rows(input.heads)),
        key_(make_rows(input.kv_heads)),
        value_(make_rows(input.kv_heads)),
        gradient_(make_rows(input.heads)) {
    if (!input.has_backward) return;
    for (Tensor* const x : {&query_, &key_, &value_}) x->requires_grad_();
  }

  MeasuredRank run() {
    const runtime::DeviceActivity before = torch_.engine().activity(rank_);
    const Bytes held = torch_.ahbm.memory_allocated();
    torch_.ahbm.reset_peak_memory_stats();
    attend();
    torch_.ahbm.synchronize();
    const runtime::DeviceActivity own = torch_.engine().activity(rank_) - before;
    return {.computing = own.computing,
            .exposed = own.exposed(),
            .peak = torch_.ahbm.max_memory_allocated() - held};
  }

 private:
  Tensor make_rows(std::int64_t heads) const {
    return torch_.zeros({input_.tokens(), heads, input_.depth},
                        {.dtype = input_.dtype, .dp = input_.on.tokens()});
  }

  void attend() const {
    const std::int64_t n = input_.tokens();
    const Tensor ends = RuntimeContext::tensor(std::vector<std::int64_t>{0, n}, {2});
    const auto body = [&] {
      const Tensor y = nn::attention::varlen_attn(
          query_, key_, value_, ends, ends, n, n,
          {.is_causal = input_.is_causal, .enable_gqa = input_.heads != input_.kv_heads});
      if (input_.has_backward) y.backward(gradient_);
    };
    if (input_.method == Method::ulysses) {
      experimental::ulysses(mesh_, {}, body);
    } else {
      experimental::set_rotate_method(torch_, name_of(input_.method));
      experimental::context_parallel(mesh_, {.order = input_.order}, body);
    }
  }

  RuntimeContext& torch_;
  const ContextInput& input_;
  const int rank_;
  const distributed::DeviceMesh mesh_;
  Tensor query_;
  Tensor key_;
  Tensor value_;
  Tensor gradient_;
};

MeasuredContext measure_on(RuntimeContext& torch, const ContextInput& input) {
  return train::run_timed_ranks<MeasuredContext, ContextRank>(torch, input, "attention");
}

RuntimeOptions options_of(const PointContext& point) {
  return {.ccl = point.bench().ccl(), .data = false, .energy = true};
}

}  // namespace

MeasuredContext measure_context(PointContext& point, const ContextInput& input) {
  const auto torch =
      point.make_context(with_sips(point.bench().topology(), input.ranks), options_of(point));
  return measure_on(*torch, input);
}

Time time_of_one_rank(const PointContext& point, ContextInput input) {
  input.method = Method::alltoall;
  input.order = experimental::TokenOrder::contiguous;
  input.ranks = 1;
  Topology topology = with_sips(point.bench().topology(), 1);
  topology.faults.clear();
  RuntimeContext torch(topology, options_of(point));
  return measure_on(torch, input).time;
}

}  // namespace kernbench::benches::context
