#include "ccl/steps/lane_queues.h"

#include "runtime/distributed/collective.h"
#include "sim_engine/components/ipcq.h"
#include "sim_engine/components/processing_element.h"
#include "sim_engine/components/switch_sum.h"
#include "sim_engine/topology/sip_network.h"

namespace kernbench::ccl {

namespace {

sim::IpcqParams without_slots(const Protocol* protocol) {
  sim::IpcqParams params = protocol == nullptr ? sim::IpcqParams{} : protocol->params();
  params.depth = 1;
  params.slot_bytes = 0;
  return params;
}

}  // namespace

LaneQueues::LaneQueues(std::shared_ptr<runtime::Simulation> simulation, const Layout* layout,
                       std::shared_ptr<EagerSlots> eager, const Protocol* protocol)
    : simulation_(std::move(simulation)),
      layout_(layout),
      eager_(std::move(eager)),
      without_slots_(without_slots(protocol)),
      hop_(protocol == nullptr ? Time{0} : protocol->hop) {}

LaneQueues::~LaneQueues() {
  for (const auto& [lane, sum] : switch_sums_) machine().disconnect(*sum);
  for (const Queue& queue : queues_) {
    if (queue.is_eager) eager_->give_back(machine().pe(queue.ends.to).location());
    // The backend may have removed all queues already.
    sim::IpcqChannel* const there = machine().pe(queue.ends.from).ipcq().out(queue.ends.out);
    if (there == queue.channel) machine().disconnect(*there);
  }
}

NodePorts LaneQueues::ports(const sim::PeLocation& at,
                            std::function<sim::PeLocation(int node)> pe_of,
                            const std::vector<int>& sips, ReduceOp op) {
  return {[=, this, &sips](int node) {
            const sim::IpcqChannel& queue = node == kSwitch
                                                ? *switch_sum(at, sips, op).of_sip(at.sip).to
                                                : this->queue(at, pe_of(node));
            return queue.ends().out;
          },
          [=, this, &sips](int node) {
            const sim::IpcqChannel& queue = node == kSwitch
                                                ? *switch_sum(at, sips, op).of_sip(at.sip).from
                                                : this->queue(pe_of(node), at);
            return queue.ends().in;
          }};
}

const sim::SwitchSum& LaneQueues::switch_sum(const sim::PeLocation& pe,
                                             const std::vector<int>& sips, ReduceOp op) {
  sim::SwitchSum*& sum = switch_sums_[{pe.cube, pe.pe}];
  if (sum == nullptr) {
    std::vector<sim::PeLocation> members;
    for (const int sip : sips) members.push_back({sip, pe.cube, pe.pe});
    sum = &machine().connect_switch_sum(members, without_slots_);
  }
  sum->set_operation(distributed::to_math_op(op));
  return *sum;
}

const sim::IpcqChannel& LaneQueues::queue(const sim::PeLocation& sender,
                                          const sim::PeLocation& receiver) {
  const auto [from, to] = machine().shift(sender, receiver);
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
    const sim::IpcqEnds queue_ends{from, out, to, in};
    const bool is_eager = eager_ != nullptr && eager_->take(machine().pe(to).location());
    sim::IpcqParams params = without_slots_;
    params.message_latency += hop_ * sim::SipNetwork(topology).hops(from.sip, to.sip);
    if (is_eager) eager_->set(params);
    queues_.push_back({&machine().connect(queue_ends, params), queue_ends, is_eager});
  }
  return *queues_[found->second].channel;
}

}  // namespace kernbench::ccl
