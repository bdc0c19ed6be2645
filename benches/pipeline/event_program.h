// A pipeline's step as events: when each rank has done each action, from what those of a stage for
// itself take.

#pragma once

#include <vector>

#include "runtime/pipelining/action.h"
#include "sim_engine/base/units.h"

namespace kernbench::benches::pipeline {

// The times until which a rank's host and its device are busy with what the rank has come to.
struct Clocks {
  Time host{0};
  Time device{0};
};

// The times of a sequence of launches, of which the device runs each when it has done the one
// before and the host has launched it.  These times are enough to say when all are done, however
// far the host is ahead of its device: device_k = max(device_k-1, host_k) + duration_k is linear in
// max and plus.
struct Cost {
  Time launching{0};  // of the host
  Time idle{0};       // from when the host begins to the device's end, if it has nothing else to do
  Time queued{0};     // of the device, if it has all launches when it begins

  Clocks after(const Clocks& clocks) const;
  // Returns the cost of this and then of `next`.
  Cost then(const Cost& next) const;
};

struct CostsOfPass {
  Cost forward;
  Cost backward;  // as a whole
  Cost input;     // the half for the input
  Cost weight;    // the half for the weights
};

// The costs of the first micro-batch, which makes gradients, of the last, with which they are sent,
// of those between, which add to them, and of what comes after all.
struct CostsOfStage {
  CostsOfPass first;
  CostsOfPass later;
  CostsOfPass last;
  Time reduction{0};  // from the last backward's end to that of the gradients' collectives
  Cost gradients;
  Cost optimizer;
};

struct MessageTimes {
  Time transfer{0};  // from when both ranks have begun it to its end, if its link is free
  Time occupied{0};  // of the link, after which the next message begins there
  Time host_leg{0};  // from a host to its device, and back
};

// Times are from the device's begin of the step.
struct ProgramTimes {
  Time step{0};      // to the last rank's end
  Time computed{0};  // to the end of the last computation
  Time bubble{0};    // the ranks' mean time until then in which they do not compute
};

// Plays the lists, with the costs of each stage.  As in a run of the schedule (ADR-0190), a host
// waits for its device before it begins to send or to receive, for a message before the computation
// that needs it, and at the end for all messages that it has sent.  The replicas of a rank share
// its links: one that has waited for the others' messages is later than they are from then on.
// If optimizers meet, as those do that need the norm of all gradients, none runs before all ranks
// have their gradients.
// REQUIRES: check_schedule() accepts the lists with their messages
ProgramTimes run_program(const distributed::pipelining::ActionLists& lists,
                         const std::vector<CostsOfStage>& stages, const MessageTimes& message,
                         int replicas = 1, bool optimizers_meet = false);

}  // namespace kernbench::benches::pipeline
