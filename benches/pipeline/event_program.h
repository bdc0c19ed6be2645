// A pipeline's step as events: when each rank has done each computation, from what a stage's take.

#pragma once

#include <vector>

#include "benches/pipeline/measured_pipeline.h"
#include "runtime/pipelining/action.h"

namespace kernbench::benches::pipeline {

// The times of the first micro-batch, which makes gradients, of the last, with which they are sent,
// and of those between, which add to them.
struct TimesOfStage {
  StageTimes first = {};
  StageTimes later = {};
  StageTimes last = {};
};

// A message between two ranks, in ns.
struct MessageTimes {
  double send = 0;   // from the end of what makes it to when what needs it can begin
  double issue = 0;  // that it holds up the next computation on its rank
};

struct ProgramTimes {
  std::vector<double> ends;  // of each rank's last computation, in ns
  double end = 0;            // of the last of all
  double bubble = 0;         // the ranks' mean time until then in which they do not compute
};

// `stages` has the times of each stage.  A message takes its time after those before it, and like
// those of add_messages() it begins when it is computed and its receiver has begun the computation
// before the one that needs it.
// REQUIRES: check_schedule() accepts the lists, in which there are no messages
ProgramTimes run_program(const distributed::pipelining::ActionLists& computations,
                         const std::vector<TimesOfStage>& stages, const MessageTimes& message);

}  // namespace kernbench::benches::pipeline
