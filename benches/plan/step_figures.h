// The figures of a plan's step: measured, or computed from those of steps with few layers.

#pragma once

#include <cstdint>

#include "benches/bench/bench.h"
#include "benches/bench/row.h"
#include "benches/ddp/measured_step.h"
#include "benches/pipeline/event_program.h"

namespace kernbench::benches::plan {

// The figures of a step on rank 0.
struct StepFigures {
  double step_ns = 0;       // the sum of the next three
  double computing_ns = 0;  // kernels run
  double exposed_ns = 0;    // collectives run, and no kernel
  double idle_ns = 0;
  // In which collectives of the axis run, and no kernel; time of both axes counts for both.
  double tp_exposed_ns = 0;
  double dp_exposed_ns = 0;
  double bubble_ns = 0;   // ddp::MeasuredStep::bubble
  double bound_ns = 0;    // ddp::MeasuredStep::bound
  double peak_bytes = 0;  // of HBM
  double flops = 0;       // that count for its MFU
  double events = 0;      // of the host's simulation, of all steps that were run
  // Figures of a stage for itself (ddp::StageStep).
  pipeline::CostsOfStage costs = {};
  double held_bytes = 0;
  double gradient_bytes = 0;
  double pass_bytes = 0;
  double kept_bytes = 0;
  bool are_below_cap = false;  // ddp::MeasuredStep::are_below_cap; of a run
};

// Simulates it with the layers of the input.
StepFigures measure(PointContext& point, const ddp::StepInput& input);
// The same by a step of at most three passes: of more micro-batches each has the second one's
// figures again.  That of a pipeline's stage has three.
StepFigures measure_passes(PointContext& point, const ddp::StepInput& input);

struct FiguresOfLayers {
  std::int64_t layers = 0;
  StepFigures figures;
};
// The figures at `layers` on the line through the two.
// REQUIRES: the two have not as many layers
StepFigures extrapolate(const FiguresOfLayers& few, const FiguresOfLayers& more,
                        std::int64_t layers);

// Cells of the names above.
void set_figures(Row& row, const StepFigures& figures);
// REQUIRES: set_figures() has set them
StepFigures figures_in(const Row& row);

}  // namespace kernbench::benches::plan
