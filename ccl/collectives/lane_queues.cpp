#include "ccl/collectives/lane_queues.h"

namespace kernbench::ccl {

LaneQueues::~LaneQueues() {
  for (const auto& [pes, queue] : queues_) {
    // The backend may have taken all queues away already.
    const bool is_there = machine().pe(pes.first).ipcq().out(queue.out) == queue.channel;
    if (is_there) machine().disconnect(*queue.channel);
  }
}

const sim::IpcqChannel& LaneQueues::queue(const sim::PeLocation& from, const sim::PeLocation& to) {
  Queue& queue = queues_[{from, to}];
  if (queue.channel == nullptr) {
    // Ports that no queue of anyone's has: there is no neighbour that they could be confused with.
    queue.out = machine().pe(from).ipcq().unused_port(sim::Direction::global_east);
    queue.channel = &machine().connect(
        {from, queue.out, to, machine().pe(to).ipcq().unused_port(sim::Direction::global_west)},
        {.depth = 1, .slot_bytes = 0});
  }
  return *queue.channel;
}

}  // namespace kernbench::ccl
