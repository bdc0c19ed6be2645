// The plans that are compared: ways to train the same samples of a model on the same devices.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "benches/bench/settings.h"
#include "benches/ddp/measured_step.h"
#include "benches/plan/step_figures.h"
#include "benches/train/configuration.h"
#include "sim_engine/base/dtype.h"
#include "sim_engine/base/units.h"
#include "sim_engine/topology/topology.h"

namespace kernbench::benches::plan {

struct Question {
  train::ConfiguredModel model = {};  // with all layers; its batch is that of the whole step
  DType dtype = DType::f32;
  int world = 1;
  Bytes memory = 0;  // of each device
  int full = 0;      // of the best plans are run with all layers
};

struct Plan {
  ddp::StepInput input = {};  // with all layers
  StepFigures figures = {};
  bool is_measured = false;    // with all layers
  StepFigures by_layers = {};  // also of a measured one; zeros: it has no more than the few layers
  std::string refused = {};    // why it cannot be; empty: it fits

  bool fits() const { return refused.empty(); }
};

// "tp 4 x dp 16, zero1, cap 25"; "tp 4 x dp 1"
std::string describe(const ddp::StepInput& input);

struct Candidates {
  std::vector<Plan> plans;
  std::vector<std::string> impossible;  // why numbers of tensor parallel ranks have no plan
};

// All divisors of world as tensor parallel ranks, the rest data parallel, with each scheme and cap
// that the settings list; an axis of one rank has no choices, and caps that all gradients are below
// are one.  Tensor parallel ranks share the tokens between their layers, too, and have no fsdp2.
// Throws UsageError KB-U012 if there is none, with what each number of tensor parallel ranks fails
// at.
Candidates list_candidates(const Question& question, const Settings& settings,
                           const Topology& topology);

}  // namespace kernbench::benches::plan
