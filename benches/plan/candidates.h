// The plans that are compared: ways to train the same samples of a model on the same devices.

#pragma once

#include <compare>
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
  Bytes memory = 0;            // of each device
  int full = 0;                // of the best plans are run with all layers
  bool is_exhaustive = false;  // plans that others make needless are timed, too
};

// A plan's place among all.  Those of a family differ in their micro-batches, unless they are
// pipelines, and in their caps and recomputations alone.
struct Place {
  int family = 0;
  int cut = 0;        // the fewest micro-batches first
  int cap = 0;        // the smallest first
  int recompute = 0;  // in the order of the key `checkpoint`

  friend auto operator<=>(const Place&, const Place&) = default;
};

struct Plan {
  ddp::StepInput input = {};  // with all layers
  Place place = {};
  StepFigures figures = {};
  bool is_measured = false;    // with all layers
  StepFigures by_layers = {};  // also of a measured one; zeros: it has no more than the few layers
  std::string refused = {};    // why it cannot be; empty: it fits
  std::string needless = {};   // why it is not timed; empty: it is

  bool is_timed() const { return !refused.empty() || figures.step_ns > 0; }
  bool is_open() const { return !is_timed() && needless.empty(); }
  bool fits() const { return refused.empty() && needless.empty(); }
};

// "tp 4 x dp 16, zero1, cap 25"; "tp 4 x dp 1, 4 micro-batches, checkpoint all"
std::string describe(const ddp::StepInput& input);

struct Candidates {
  std::vector<Plan> plans;
  std::vector<std::string> impossible;  // why ranks along an axis have no plan
  std::vector<std::string> left_out;    // why some of the settings' lists have none with others
};

// All divisors of world as tensor parallel ranks, of what is left those that the settings list as
// stages of a pipeline, and the rest data parallel, with each scheme, schedule, cap, number of
// micro-batches and recomputation that the settings list; an axis of one rank has no
// choices, and caps that all gradients are below are one.  Tensor parallel ranks share the tokens
// between their layers, too, and have no fsdp2.  Micro-batches that do not divide a rank's samples
// are left out.
// Throws UsageError KB-U012 if there is none, with each reason.
Candidates list_candidates(const Question& question, const Settings& settings,
                           const Topology& topology);

}  // namespace kernbench::benches::plan
