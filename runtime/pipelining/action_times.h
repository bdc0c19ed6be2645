// When devices have done the computations of a schedule.

#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/pipelining/action.h"
#include "sim_engine/base/units.h"

namespace kernbench {
class RuntimeContext;
}

namespace kernbench::distributed::pipelining {

// A computation, from when its device could begin with it to its last kernel's end, in simulated
// time since the run began.
struct ActionTime {
  Action action = {};
  Time begin{0};
  Time end{0};

  Time duration() const { return end - begin; }
};

// The computations of a step on the caller's device, which a profiled run logs as well.
class ActionTimes {
 public:
  void begin_step() { times_ = std::make_shared<std::vector<ActionTime>>(); }
  // The action's kernels are those that the caller launches between these two calls.
  void begin(RuntimeContext& torch, const Action& action);
  void end(RuntimeContext& torch);

  // Returns the last step's computations, in its order.  REQUIRES: the device has done it
  const std::vector<ActionTime>& of_step() const { return *times_; }

 private:
  // Instants on the device write here, which may be after a schedule's end.
  std::shared_ptr<std::vector<ActionTime>> times_ = std::make_shared<std::vector<ActionTime>>();
  std::optional<std::size_t> span_;  // in the run's log, of the action that has begun
};

}  // namespace kernbench::distributed::pipelining
