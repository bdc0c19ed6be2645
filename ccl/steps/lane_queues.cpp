#include "ccl/steps/lane_queues.h"

#include "runtime/distributed/collective.h"
#include "sim_engine/components/ipcq.h"
#include "sim_engine/components/processing_element.h"
#include "sim_engine/components/switch_sum.h"

namespace kernbench::ccl {

LaneQueues::~LaneQueues() {
  for (const auto& [lane, sum] : switch_sums_) machine().disconnect(*sum);
  for (const Queue& queue : queues_) {
    // The backend may have removed all queues already.
    sim::IpcqChannel* const there = machine().pe(queue.from).ipcq().out(queue.out);
    if (there == queue.channel) machine().disconnect(*there);
  }
}

sim::IpcqParams LaneQueues::without_slots() const {
  sim::IpcqParams params{.depth = 1, .slot_bytes = 0};
  params.message_latency = protocol_.message_latency;
  params.efficiency = protocol_.efficiency;
  return params;
}

NodePorts LaneQueues::ports(const sim::PeLocation& at,
                            std::function<sim::PeLocation(int node)> pe_of,
                            const std::vector<int>& sips, ReduceOp op) {
  const auto port = [](const sim::IpcqChannel& queue, tl::Port end) {
    return NodePort{end, queue.params().slot_bytes > 0};
  };
  return {[=, this, &sips](int node) {
            const sim::IpcqChannel& queue = node == kSwitch
                                                ? *switch_sum(at, sips, op).of_sip(at.sip).to
                                                : this->queue(at, pe_of(node));
            return port(queue, queue.ends().out);
          },
          [=, this, &sips](int node) {
            const sim::IpcqChannel& queue = node == kSwitch
                                                ? *switch_sum(at, sips, op).of_sip(at.sip).from
                                                : this->queue(pe_of(node), at);
            return port(queue, queue.ends().in);
          }};
}

const sim::SwitchSum& LaneQueues::switch_sum(const sim::PeLocation& pe,
                                             const std::vector<int>& sips, ReduceOp op) {
  sim::SwitchSum*& sum = switch_sums_[{pe.cube, pe.pe}];
  if (sum == nullptr) {
    std::vector<sim::PeLocation> members;
    for (const int sip : sips) members.push_back({sip, pe.cube, pe.pe});
    sum = &machine().connect_switch_sum(members, without_slots());
  }
  sum->set_operation(distributed::to_math_op(op));
  return *sum;
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
    queues_.push_back({&machine().connect({from, out, to, in}, without_slots()), from, out});
  }
  return *queues_[found->second].channel;
}

}  // namespace kernbench::ccl
