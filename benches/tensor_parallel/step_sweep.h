// The common part of the benches of tensor parallelism: a training step for each number of ranks,
// its check, its tables and its figures (ADR-0135).

#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "benches/bench/bench.h"
#include "benches/tensor_parallel/single_rank.h"
#include "benches/tensor_parallel/training_step.h"

namespace kernbench::benches::tensor_parallel {

// One point.
struct StepPoint {
  int tp = 1;
  StepInput input;
};

// The parts in which the benches differ.
struct StepBench {
  std::string model;  // "GPT: 2 layers, ..."
  std::int64_t tokens = 0;
  std::int64_t hidden = 0;
  std::int64_t cut = 0;       // the size that ranks, and their PEs, share
  std::string_view cut_name;  // the setting that it comes from
  std::string flops_form;     // of a step
  double forward_flops = 0;   // 2 m n k over all matrix products of forward
  std::string check_form;     // what is compared with what, within which bound
  BuildWith build;
  std::function<DenseModel()> draw;
  std::function<ExpectedStep(const SingleRank&, const StepInput&)> expect;
};

// A bench's own settings, together with those that run_step_sweep() reads.
std::vector<SettingInfo> with_step_settings(std::vector<SettingInfo> own);

// Throws UsageError KB-U012 if ranks or PEs do not divide what they share, ConfigError KB-Y043 if
// ccl.yaml makes PEs the ranks.
void run_step_sweep(Bench& bench, const StepBench& steps);

}  // namespace kernbench::benches::tensor_parallel
