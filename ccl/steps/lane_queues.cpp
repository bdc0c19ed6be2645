#include "ccl/steps/lane_queues.h"

namespace kernbench::ccl {

LaneQueues::~LaneQueues() {
  for (const Queue& queue : queues_) {
    // The backend may have removed all queues already.
    sim::IpcqChannel* const there = machine().pe(queue.from).ipcq().out(queue.out);
    if (there == queue.channel) machine().disconnect(*there);
  }
}

const sim::IpcqChannel& LaneQueues::queue(const sim::PeLocation& from, const sim::PeLocation& to) {
  if (layout_ != nullptr) {
    if (const auto port = layout_->port_between(from, to)) {
      return *machine().pe(from).ipcq().out(*port);
    }
  }
  const Topology& topology = machine().topology();
  const std::uint64_t ends =
      std::uint64_t{sim::pe_number(topology, from)} << 32 | sim::pe_number(topology, to);
  const auto [found, is_new] = of_ends_.try_emplace(ends, queues_.size());
  if (is_new) {
    // These ports have no other queue, and no neighbour that they could be confused with.
    const sim::Port out = machine().pe(from).ipcq().unused_port(sim::Direction::global_east);
    const sim::Port in = machine().pe(to).ipcq().unused_port(sim::Direction::global_west);
    queues_.push_back(
        {&machine().connect({from, out, to, in}, {.depth = 1, .slot_bytes = 0}), from, out});
  }
  return *queues_[found->second].channel;
}

}  // namespace kernbench::ccl
