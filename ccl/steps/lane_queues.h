// The queues between the PEs of a lane on two members' SIPs, made when they are first needed.
// They serve one collective or message at a time, and later ones of the same group.

#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ccl/core/layout.h"
#include "runtime/simulation/simulation.h"

namespace kernbench::ccl {

// They have no slots, since messages are copied directly to posted receives.  So they cost no
// memory of the device, and hundreds of groups may have their own.  Where a layout already joins
// two PEs, its queue is used, which has slots.
class LaneQueues {
 public:
  // `layout` may be null; else it outlives the queues.
  LaneQueues(std::shared_ptr<runtime::Simulation> simulation, const Layout* layout)
      : simulation_(std::move(simulation)), layout_(layout) {}
  ~LaneQueues();  // removes the queues
  LaneQueues(const LaneQueues&) = delete;
  LaneQueues& operator=(const LaneQueues&) = delete;

  // Returns the queue from one PE to another.
  const sim::IpcqChannel& queue(const sim::PeLocation& from, const sim::PeLocation& to);

 private:
  struct Queue {
    const sim::IpcqChannel* channel = nullptr;
    sim::PeLocation from;
    sim::Port out;  // on the sending PE
  };

  sim::Machine& machine() { return simulation_->machine(); }

  const std::shared_ptr<runtime::Simulation> simulation_;  // groups may outlive a context
  const Layout* const layout_;
  std::vector<Queue> queues_;                               // in the order of creation
  std::unordered_map<std::uint64_t, std::size_t> of_ends_;  // by ends; looked up, never listed
};

}  // namespace kernbench::ccl
