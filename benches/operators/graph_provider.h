// A provider whose kernels are derived from the graph.

#pragma once

#include <vector>

#include "benches/operators/fusion.h"
#include "benches/operators/graph_kernel.h"
#include "benches/operators/operator_case.h"

namespace kernbench::benches::operators {

class GraphProvider : public Provider {
 public:
  // REQUIRES: the run outlives this
  GraphProvider(OperatorRun& run, Plan plan);

  void forward() override { run_kernels(Direction::forward); }
  void backward() override { run_kernels(Direction::backward); }

 private:
  void run_kernels(Direction direction);

  OperatorRun& run_;
  Plan plan_;
  Places places_;
  std::vector<int> uses_;  // by node: kernels that are yet to load it
};

}  // namespace kernbench::benches::operators
