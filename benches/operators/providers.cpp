// The providers that every case has: its graph, node by node or fused, and kernels by hand.

#include <algorithm>

#include "benches/operators/fusion.h"
#include "benches/operators/graph_provider.h"
#include "benches/operators/operator_run.h"

namespace kernbench::benches::operators {

namespace {

class HandWritten : public Provider {
 public:
  HandWritten(OperatorRun& run, LaunchKernels launch_forward, LaunchKernels launch_backward)
      : run_(run), launch_forward_(launch_forward), launch_backward_(launch_backward) {}

  void forward() override { launch_forward_(run_); }
  void backward() override { launch_backward_(run_); }

 private:
  OperatorRun& run_;
  const LaunchKernels launch_forward_;
  const LaunchKernels launch_backward_;
};

}  // namespace

ProviderInfo naive() {
  return {"naive", "Naive", [](OperatorRun& run) {
            return std::make_unique<GraphProvider>(run, plan_node_by_node(run.definition()));
          }};
}

ProviderInfo compiled() {
  return {"compiled", "Compiled", [](OperatorRun& run) {
            return std::make_unique<GraphProvider>(run, plan_fused(run.definition()));
          }};
}

ProviderInfo fused(LaunchKernels forward, LaunchKernels backward) {
  return {"fused", "Fused",
          [=](OperatorRun& run) { return std::make_unique<HandWritten>(run, forward, backward); }};
}

}  // namespace kernbench::benches::operators
