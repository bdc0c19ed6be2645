// The ranks that poll: they look repeatedly whether something has happened.

#pragma once

#include <vector>

#include "sim_engine/base/units.h"

namespace kernbench::runtime {

class Completion;
class Simulation;

// Each polling rank waits for the end of the next instant at which anything happens other than
// polling.  One event serves all of them: if each had an event of its own, two pollers would wake
// each other for ever, and simulated time would stand still.
class Pollers {
 public:
  explicit Pollers(Simulation& simulation) : simulation_(simulation) {}

  // Blocks the caller until that instant; if no event is left, until all pollers have had their
  // turn.  Throws what Simulation::wait() throws.
  void wait();

  // Called when a failed run ends and the engine has dropped its events.
  void forget_event() { is_scheduled_ = false; }

 private:
  struct Poller {
    Completion* may_look = nullptr;
    Time since{0};
  };

  void schedule(Time delay);
  void wake();

  Simulation& simulation_;
  std::vector<Poller> waiting_;  // in the order of their calls
  bool is_scheduled_ = false;    // true if wake() is scheduled
};

}  // namespace kernbench::runtime
