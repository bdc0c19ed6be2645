// Steps of a pipeline of a language model's stages, each on data and tensor parallel ranks.

#pragma once

#include "benches/bench/bench.h"
#include "benches/ddp/measured_step.h"
#include "benches/pipeline/event_program.h"
#include "runtime/pipelining/action.h"
#include "sim_engine/topology/topology.h"

namespace kernbench::benches::ddp {

// The computations of each of the pipeline's ranks.  Throws CollectiveError KB-C024 if its numbers
// do not fit the schedule.
distributed::pipelining::ActionLists list_actions(const StepInput& input);
// True if backward runs in halves.
bool splits_backward(const distributed::pipelining::ActionLists& lists);
// True if the last rank sends to the first one, which has the stage behind the last rank's.
bool sends_round(const StepInput& input);

// measure_step() of a pipeline: its figures are rank 0's but for the peak, the largest of all
// ranks, and the FLOPs, their mean.  Buckets are left out.
MeasuredStep measure_pipeline_step(PointContext& point, const StepInput& input,
                                   const Topology& topology);

// Times of a message, which is what lies between two stages, to the rank of the next or the
// previous one: the longest of all ranks, alone and together with those of data parallel ranks.
pipeline::MessageTimes measure_messages(PointContext& point, const StepInput& input,
                                        const Topology& topology);

}  // namespace kernbench::benches::ddp
