// Measures what an operator and an optimizer's step cost the host between call and return.  The
// engine does not run meanwhile: launches queue, and their host link issues in no time.
//
// Limits: 3 us of CPU for an elementwise operator, 100 us for a step of 100 parameters.

#include "benches/bench/inputs.h"
#include "runtime/functional/functional.h"
#include "runtime/optim/optimizer.h"
#include "runtime/torch/run_ranks.h"
#include "runtime/torch/runtime_context.h"
#include "test/micro/micro.h"

namespace kernbench::micro {

namespace operator_benchmark {
namespace {

constexpr int kOperators = 500;  // fewer than a stream holds
constexpr int kParameters = 100;

// The least CPU seconds of an action, called so often on the fiber of a rank, beside a limit.
template <class Prepare>
void report_issue(benchmark::State& state, int calls, double limit, const Prepare& prepare) {
  Topology topology = benches::load_topology("tiny");
  topology.system.host_issue = Time{0};
  double least = 1e9;
  for (auto _ : state) {
    RuntimeContext torch(topology, {.data = false});
    torch.distributed.init_process_group("ahbm", {.world_size = 1});
    run_ranks(torch, 1, [&](int) {
      const auto action = prepare(torch);
      for (int turn = 0; turn < 4; ++turn) {
        torch.ahbm.synchronize();
        const double before = cpu_seconds();
        for (int i = 0; i < calls; ++i) action();
        least = std::min(least, (cpu_seconds() - before) / calls);
      }
    });
  }
  state.counters["us"] = least * 1e6;
  state.counters["ratio_to_limit"] = limit / least;
}

void issue_of_an_operator(benchmark::State& state) {
  report_issue(state, kOperators, 3e-6, [](RuntimeContext& torch) {
    const TensorOptions options{.dp = DPPolicy::on_one_pe()};
    const Tensor x = torch.ones({16, 16}, options);
    const Tensor y = torch.ones({16, 16}, options);
    return [x, y] { benchmark::DoNotOptimize(x + y); };
  });
}
BENCHMARK(issue_of_an_operator)->Iterations(5);

void issue_of_a_step(benchmark::State& state) {
  report_issue(state, 10, 100e-6, [](RuntimeContext& torch) {
    const TensorOptions options{.dp = DPPolicy::on_one_pe()};
    std::vector<Tensor> parameters;
    for (int i = 0; i < kParameters; ++i) {
      parameters.push_back(torch.ones({16, 16}, options).requires_grad_());
      parameters.back().mutable_grad() = torch.ones({16, 16}, options);
    }
    const auto optimizer = std::make_shared<optim::AdamW>(parameters, optim::AdamWOptions(1e-3));
    optimizer->step();
    return [optimizer] { optimizer->step(); };
  });
}
BENCHMARK(issue_of_a_step)->Iterations(5);

}  // namespace
}  // namespace operator_benchmark

}  // namespace kernbench::micro
