// A step of a pipeline of GPT-2's blocks on a topology, and what it took.

#pragma once

#include <string>
#include <vector>

#include "benches/bench/bench.h"
#include "benches/train/language_model.h"
#include "benches/train/used_pes.h"
#include "runtime/pipelining/action_lists.h"
#include "runtime/pipelining/action_times.h"
#include "sim_engine/base/dtype.h"
#include "sim_engine/base/units.h"

namespace kernbench::benches::pipeline {

struct PipelineInput {
  std::string schedule = {};
  distributed::pipelining::ActionLists lists = {};
  distributed::pipelining::PipelineSize size = {};
  train::LanguageModelSize model = {};  // `seq` and `batch` are of a micro-batch
  DType dtype = DType::f32;
  train::UsedPes on = {};
};

// Means over micro-batches and stages, in ns.  The first stage does not count if there are others:
// its input has no gradient.
struct StageTimes {
  double forward = 0;
  double backward = 0;  // as a whole; 0 if all are in halves
  double input = 0;     // the half for the input; 0 if there are none
  double weight = 0;    // the half for the weights
};

struct MeasuredRank {
  std::vector<int> stages;
  std::vector<distributed::pipelining::ActionTime> actions;
  Time computing{0};      // kernels ran
  int peak_forwards = 0;  // of micro-batches through a stage, whose backward was still to come
  int peak_weights = 0;   // backwards for the input, without that for the weights
  Bytes peak = 0;         // beyond what it held before the step
  // These are parts of the peak, likewise beyond what was held before.
  Bytes peak_activations = 0;
  Bytes peak_gradients = 0;
};

struct MeasuredPipeline {
  Time begin{0};
  Time step{0};  // from the last rank's begin to the last one's end
  StageTimes times;
  std::vector<MeasuredRank> ranks;
};

MeasuredPipeline measure_pipeline(PointContext& point, const PipelineInput& input,
                                  const Topology& topology);

}  // namespace kernbench::benches::pipeline
