// The ranks that poll: they look repeatedly whether something has happened.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/fiber/fiber.h"
#include "runtime/fiber/function_ref.h"
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

  // Called by what was scheduled for a standstill of the engine, at which pollers wait.
  void standstill_ends();

  // Called when a failed run ends and the engine has dropped its events.
  void forget_event() { is_scheduled_ = false; }

 private:
  struct Poller {
    Completion* may_look = nullptr;
    Time since{0};
  };

  void schedule(Time delay);
  void wake();
  void look_at_standstill();

  Simulation& simulation_;
  std::vector<Poller> waiting_;  // in the order of their calls
  bool is_scheduled_ = false;    // true if wake() is scheduled
  std::size_t looked_ = 0;       // how many have looked at this standstill
};

// A rank's looks whether one thing is done.  Asking takes no simulated time, but a rank that asks
// again and has waited for nothing since lets time advance to the next event, so that a polling
// loop ends.
class Looks {
 public:
  // Records a look that finds it not done; may let simulated time advance.  Throws DeadlockError
  // KB-D002 if the rank asks for ever.
  void look(Simulation& simulation, FunctionRef<bool()> is_done, DescribeWait what);

 private:
  Time at_{0};              // time of the last look that found it not done
  std::uint64_t turn_ = 0;  // scheduler turn of that look
};

}  // namespace kernbench::runtime
