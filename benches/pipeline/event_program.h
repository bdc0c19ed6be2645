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
  StageTimes host = {};  // of any: that a rank's host takes to launch them
};

// A message between two ranks, in ns.
struct MessageTimes {
  double send = 0;    // from the end of what makes it to when what needs it can begin
  double issue = 0;   // that it holds up the next computation on its rank
  double launch = 0;  // of the host of each of both ranks
};

struct ProgramTimes {
  std::vector<double> ends;      // of each rank's last computation, in ns
  std::vector<double> launched;  // when its host has launched that
  double end = 0;                // of the last of all
  double bubble = 0;             // the ranks' mean time until then in which they do not compute
};

// `stages` has the times of each stage.  A message takes its time after those before it, and like
// those of add_messages() it begins when it is computed and its receiver has begun the computation
// before the one that needs it.  A computation begins on its device when that is free, what it
// needs is there and its launch begins, and it does not end before that has ended; a rank's host
// goes through its list without waiting for the device. REQUIRES: check_schedule() accepts the
// lists, in which there are no messages
ProgramTimes run_program(const distributed::pipelining::ActionLists& computations,
                         const std::vector<TimesOfStage>& stages, const MessageTimes& message);

}  // namespace kernbench::benches::pipeline
