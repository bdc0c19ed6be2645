// The providers that every case has: its graph, node by node or fused, and kernels by hand.

#include "benches/operators/fusion.h"
#include "benches/operators/graph_provider.h"
#include "benches/operators/operator_run.h"
#include "sim_engine/base/error.h"
#include "sim_engine/config/config_errors.h"

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

std::unique_ptr<Provider> make_provider(const ProviderInfo& info, OperatorRun& run) {
  std::unique_ptr<Provider> provider = info.make(run);
  if (provider != nullptr) return provider;
  throw Error("KB-O003", ExitCode::collective_misuse,
              "operator case: make() of provider {} returns none", in_quotes(info.name));
}

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
  ProviderInfo info{"fused", "Fused", {}};
  if (forward == nullptr || backward == nullptr) return info;
  info.make = [=](OperatorRun& run) {
    return std::make_unique<HandWritten>(run, forward, backward);
  };
  return info;
}

}  // namespace kernbench::benches::operators
