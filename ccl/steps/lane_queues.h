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

#include "ccl/core/config_rules.h"
#include "ccl/core/layout.h"
#include "ccl/steps/eager_slots.h"
#include "ccl/steps/step.h"
#include "runtime/distributed/options.h"
#include "runtime/simulation/simulation.h"

namespace kernbench::ccl {

// Small messages go through the slots that their receiver keeps for them, if it has some left.
// Others are copied directly to posted receives.  Queues therefore cost no further memory of the
// device, and hundreds of groups may have their own.  Where a layout already joins two PEs, its
// queue is used, which has larger slots.
class LaneQueues {
 public:
  // `layout` and `eager` may be null; the layout outlives the queues.  Queues of their own have the
  // times and the efficiency of `protocol`, if there is one.
  LaneQueues(std::shared_ptr<runtime::Simulation> simulation, const Layout* layout,
             std::shared_ptr<EagerSlots> eager, const Protocol* protocol);
  ~LaneQueues();  // removes the queues
  LaneQueues(const LaneQueues&) = delete;
  LaneQueues& operator=(const LaneQueues&) = delete;

  // Returns the queue from one PE to another.
  const sim::IpcqChannel& queue(const sim::PeLocation& sender, const sim::PeLocation& receiver);
  // Returns the ports of a PE to and from the nodes of a plan, which lie at `pe_of`, and to the
  // switch, which reduces what the same PE of each of the SIPs sends.
  NodePorts ports(const sim::PeLocation& at, std::function<sim::PeLocation(int node)> pe_of,
                  const std::vector<int>& sips, ReduceOp op);

 private:
  struct Queue {
    const sim::IpcqChannel* channel = nullptr;
    sim::IpcqEnds ends;
    bool is_eager = false;
  };

  const sim::SwitchSum& switch_sum(const sim::PeLocation& pe, const std::vector<int>& sips,
                                   ReduceOp op);
  sim::Machine& machine() { return simulation_->machine(); }

  const std::shared_ptr<runtime::Simulation> simulation_;  // groups may outlive a context
  const Layout* const layout_;
  const std::shared_ptr<EagerSlots> eager_;  // null: no queue has slots
  const sim::IpcqParams without_slots_;
  const Time hop_;  // of a message, for each link between SIPs on its way
  std::vector<Queue> queues_;                                   // in the order of creation
  std::unordered_map<std::uint64_t, std::size_t> of_ends_;      // by ends; looked up, never listed
  std::map<std::pair<int, int>, sim::SwitchSum*> switch_sums_;  // by cube and PE
};

}  // namespace kernbench::ccl
