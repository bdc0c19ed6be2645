// The figures of a plan's step: measured, or computed from those of steps with few layers.

#pragma once

#include <cstdint>

#include "benches/bench/bench.h"
#include "benches/bench/row.h"
#include "benches/ddp/measured_step.h"

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
  double peak_bytes = 0;  // of HBM
  double flops = 0;       // that count for its MFU
  double events = 0;      // of the host's simulation, of three steps
  // Figures of a stage for itself (ddp::StageStep): its first pass, later ones and the last.
  double first_forward_ns = 0;
  double forward_ns = 0;
  double last_forward_ns = 0;
  double first_backward_ns = 0;
  double backward_ns = 0;
  double last_backward_ns = 0;
  double first_input_ns = 0;
  double input_ns = 0;
  double last_input_ns = 0;
  double first_weight_ns = 0;
  double weight_ns = 0;
  double last_weight_ns = 0;
  double tail_ns = 0;
  double launch_forward_ns = 0;  // and on the host
  double launch_backward_ns = 0;
  double launch_input_ns = 0;
  double launch_weight_ns = 0;
  double launch_tail_ns = 0;
  double held_bytes = 0;
  double gradient_bytes = 0;
  double pass_bytes = 0;
  double kept_bytes = 0;
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
