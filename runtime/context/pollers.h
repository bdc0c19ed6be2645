// Ranks that poll: that look again and again whether something has happened.

#pragma once

#include <vector>

#include "sim_engine/base/units.h"

namespace kernbench::runtime {

class Completion;
class Simulation;

// Each waits for the end of the next instant at which anything happens but other ranks' looking.
// One event serves all of them: if each had an event of its own, two pollers would be the next
// thing that happens to each other, for ever, and time would stand still.
class Pollers {
 public:
  explicit Pollers(Simulation& simulation) : simulation_(simulation) {}

  // Blocks the caller until that instant; if nothing is left to happen, until all that poll have
  // had their turn.  Throws what Simulation::wait() does.
  void wait();

  // The engine has dropped its events: the end of a run that failed.
  void forget_event() { is_scheduled_ = false; }

 private:
  struct Poller {
    Completion* may_look = nullptr;
    Time since{0};
  };

  void schedule(Time delay);
  void wake();

  Simulation& simulation_;
  std::vector<Poller> waiting_;  // in the order in which they came
  bool is_scheduled_ = false;    // wake() is
};

}  // namespace kernbench::runtime
