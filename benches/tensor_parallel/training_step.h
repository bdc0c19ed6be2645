// One training step of a model that ranks share: forward, backward with a given gradient of the
// output, timed on every rank.

#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "benches/tensor_parallel/dense_model.h"
#include "benches/tensor_parallel/expected.h"
#include "runtime/guards/flight_recorder.h"
#include "runtime/simulation/activity_meter.h"
#include "runtime/torch/runtime_context.h"
#include "tp/parameter.h"

namespace kernbench::benches::tensor_parallel {

struct StepInput {
  std::int64_t tokens = 0;
  std::int64_t hidden = 0;
  DType dtype = DType::f16;
  int pes = 1;  // PEs of each device that share the rank's part
  bool sequence_parallel = false;
  bool overlap = true;  // of backward's communication with products
};

// The model that a rank builds.  Its parameters are those of DenseModel, in the same order.
struct RankModel {
  std::function<Tensor(const Tensor& x)> forward;
  std::vector<tp::Parameter> parameters;
};
using BuildModel = std::function<RankModel(RuntimeContext& torch)>;

// The result of a step on one rank.  The tensors belong to the context.
struct RankStep {
  Time began{0};  // the same on all ranks
  Time forward_ended{0};
  Time ended{0};
  runtime::DeviceActivity activity;               // during the step
  std::vector<runtime::FlightEvent> collectives;  // of the step, in their order
  std::size_t forward_collectives = 0;            // the first so many are those of forward
  Tensor x;
  Tensor y;
  std::vector<tp::Parameter> parameters;

  Time forward() const { return forward_ended - began; }
  Time backward() const { return ended - forward_ended; }
  Time step() const { return ended - began; }
};

// Runs the step with one rank per SIP: init_process_group(), initialize_model_parallel() with all
// of them in one tensor parallel group, spawn() of ranks that build the model and take their part
// of `values`, if there are some, and then begin together.
std::vector<RankStep> run_training_step(RuntimeContext& torch, const StepInput& input,
                                        const BuildModel& build, const DenseModel* values);

// A rank's part of a parameter that is [rows, columns] as a whole.
// REQUIRES: stride 1
Part find_part(const tp::Parameter& parameter, std::int64_t rows, std::int64_t columns, int rank,
               int world_size);
// A rank's part of all tokens.
Part part_of_tokens(const StepInput& input, int rank, int world_size);

}  // namespace kernbench::benches::tensor_parallel
