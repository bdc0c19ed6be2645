// A pipeline's step from those of its stages, each of which is run for itself (ADR-0225).

#pragma once

#include <string>
#include <vector>

#include "benches/ddp/measured_step.h"
#include "benches/pipeline/event_program.h"
#include "benches/plan/step_figures.h"

namespace kernbench::benches::plan {

// The first stage, one between the first and the last, and the last: what is not the first or the
// last is alike.  Backward is in halves if that is so in the schedule.
std::vector<ddp::StepInput> kinds_of_stages(const ddp::StepInput& input);

// "first stage of tp 2 x dp 2 x pp 2, ...": stages of the same name are alike, whatever the
// schedule.
std::string describe_stage(const ddp::StepInput& stage);

// "messages of tp 2 x dp 2 x pp 2, 2 samples": of the same name are alike, whatever else.
std::string describe_messages(const ddp::StepInput& input);

// `kinds`: the figures of kinds_of_stages().  The peak is the largest of all ranks, with as many
// micro-batches as the schedule has under way; other figures are rank 0's.
StepFigures compose(const ddp::StepInput& input, const std::vector<StepFigures>& kinds,
                    const pipeline::MessageTimes& message);

}  // namespace kernbench::benches::plan
