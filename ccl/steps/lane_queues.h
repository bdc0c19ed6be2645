// The queues between the PEs of a lane on two members' SIPs, made when they are first needed.
// They serve one collective or message at a time, and later ones of the same group.

#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ccl/core/layout.h"
#include "ccl/steps/step.h"
#include "runtime/distributed/options.h"
#include "runtime/simulation/simulation.h"

namespace kernbench::ccl {

// They have no slots, since messages are copied directly to posted receives.  They therefore cost
// no memory of the device, and hundreds of groups may have their own.  Where a layout already joins
// two PEs, its queue is used, which has slots.
class LaneQueues {
 public:
  // `layout` may be null; else it outlives the queues.  Queues of their own have the latency and
  // the efficiency of `protocol`.
  LaneQueues(std::shared_ptr<runtime::Simulation> simulation, const Layout* layout,
             const sim::IpcqParams& protocol)
      : simulation_(std::move(simulation)), layout_(layout), protocol_(protocol) {}
  ~LaneQueues();  // removes the queues
  LaneQueues(const LaneQueues&) = delete;
  LaneQueues& operator=(const LaneQueues&) = delete;

  // Returns the queue from one PE to another.
  const sim::IpcqChannel& queue(const sim::PeLocation& from, const sim::PeLocation& to);
  // Returns the ports of a PE to and from the nodes of a plan, which lie at `pe_of`, and to the
  // switch, which reduces what the same PE of each of the SIPs sends.
  NodePorts ports(const sim::PeLocation& at, std::function<sim::PeLocation(int node)> pe_of,
                  const std::vector<int>& sips, ReduceOp op);

 private:
  struct Queue {
    const sim::IpcqChannel* channel = nullptr;
    sim::PeLocation from;
    sim::Port out;  // on the sending PE
  };

  const sim::SwitchSum& switch_sum(const sim::PeLocation& pe, const std::vector<int>& sips,
                                   ReduceOp op);
  sim::IpcqParams without_slots() const;
  sim::Machine& machine() { return simulation_->machine(); }

  const std::shared_ptr<runtime::Simulation> simulation_;  // groups may outlive a context
  const Layout* const layout_;
  const sim::IpcqParams protocol_;
  std::vector<Queue> queues_;                                   // in the order of creation
  std::unordered_map<std::uint64_t, std::size_t> of_ends_;      // by ends; looked up, never listed
  std::map<std::pair<int, int>, sim::SwitchSum*> switch_sums_;  // by cube and PE
};

}  // namespace kernbench::ccl
