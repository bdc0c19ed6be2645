// A step of a pipeline of GPT-2's blocks on a topology, and what it took.

#pragma once

#include <string>
#include <vector>

#include "benches/bench/bench.h"
#include "benches/train/language_model.h"
#include "benches/train/used_pes.h"
#include "runtime/pipelining/action_lists.h"
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

struct MeasuredRank {
  std::vector<int> stages;
  Time computing{0};      // kernels ran
  int peak_forwards = 0;  // of micro-batches through a stage, whose backward was still to come
  Bytes peak = 0;         // beyond what it held before the step
};

struct MeasuredPipeline {
  Time step{0};  // from the last rank's begin to the last one's end
  std::vector<MeasuredRank> ranks;
};

MeasuredPipeline measure_pipeline(PointContext& point, const PipelineInput& input,
                                  const Topology& topology);

}  // namespace kernbench::benches::pipeline
