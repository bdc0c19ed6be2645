// The queues of one collective or message, and of the next ones of its group: between the PEs of a
// lane on two members' SIPs, made when they are first needed.

#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/context/simulation.h"

namespace kernbench::ccl {

// They have no slots: messages are copied to where their receive is posted.  So they cost no memory
// of the device, and hundreds of groups may have their own.
class LaneQueues {
 public:
  explicit LaneQueues(std::shared_ptr<runtime::Simulation> simulation)
      : simulation_(std::move(simulation)) {}
  ~LaneQueues();  // takes them away
  LaneQueues(const LaneQueues&) = delete;
  LaneQueues& operator=(const LaneQueues&) = delete;

  // The queue from one PE to another.
  const sim::IpcqChannel& queue(const sim::PeLocation& from, const sim::PeLocation& to);

 private:
  struct Queue {
    const sim::IpcqChannel* channel = nullptr;
    sim::PeLocation from;
    sim::Port out;  // on the PE that it comes from
  };

  sim::Machine& machine() { return simulation_->machine(); }

  const std::shared_ptr<runtime::Simulation> simulation_;   // groups may outlive a context
  std::vector<Queue> queues_;                               // in the order in which they were made
  std::unordered_map<std::uint64_t, std::size_t> of_ends_;  // asked, never listed
};

}  // namespace kernbench::ccl
