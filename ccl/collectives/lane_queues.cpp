#include "ccl/collectives/lane_queues.h"

#include <algorithm>

namespace kernbench::ccl {

LaneQueues::~LaneQueues() {
  for (const auto& [pes, queue] : queues_) {
    // The backend may have taken all queues away already.
    const auto outs = machine().pe(pes.first).ipcq().outs();
    if (std::ranges::find(outs, queue) != outs.end()) machine().disconnect(*queue);
  }
}

const sim::IpcqChannel& LaneQueues::queue(const sim::PeLocation& from, const sim::PeLocation& to) {
  sim::IpcqChannel*& queue = queues_[{from, to}];
  if (queue == nullptr) {
    // Ports that no queue of anyone's has: there is no neighbour that they could be confused with.
    queue = &machine().connect(
        {from, machine().pe(from).ipcq().unused_port(sim::Direction::global_east), to,
         machine().pe(to).ipcq().unused_port(sim::Direction::global_west)},
        {.depth = 1, .slot_bytes = 0});
  }
  return *queue;
}

}  // namespace kernbench::ccl
