#include "sim_engine/components/machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "sim_engine/base/check.h"

namespace kernbench::sim {

namespace {

const Topology& checked(const Topology& topology) {
  topology.check();
  return topology;
}

std::vector<HbmAllocator> make_hbm(const Topology& topology) {
  std::vector<HbmAllocator> hbm;
  for (int sip = 0; sip < topology.system.sip_count; ++sip) hbm.emplace_back(topology, sip);
  return hbm;
}

}  // namespace

Machine::Machine(const Topology& topology, const MachineOptions& options)
    : topology_(checked(topology)),
      trace_(options.trace ? std::make_unique<TraceRecorder>() : nullptr),
      fabric_(engine_, topology_, trace_.get()),
      memory_(options.data),
      op_log_(options.op_log_limit),
      launcher_(engine_, fabric_, topology_),
      hbm_(make_hbm(topology_)),
      queue_memory_(topology_, hbm_),
      services_{topology_, engine_,      fabric_, memory_, accesses_,
                op_log_,   trace_.get(), {},      {},      {}} {
  if (options.shuffle_ties) engine_.shuffle_ties(*options.shuffle_ties);
  if (options.profile) engine_.record_causes();
  std::uint32_t number = 0;
  for (int sip = 0; sip < topology_.system.sip_count; ++sip) {
    for (int cube = 0; cube < topology_.cube_count(); ++cube) {
      for (int pe = 0; pe < topology_.pe_count(); ++pe) {
        pes_.emplace_back(services_, PeLocation{sip, cube, pe}, number++);
      }
    }
  }
}

ProcessingElement& Machine::pe(const PeLocation& at) {
  KB_CHECK(exists(topology_, at), "there is no {}", to_string(at));
  const int number = (at.sip * topology_.cube_count() + at.cube) * topology_.pe_count() + at.pe;
  return pes_[static_cast<std::size_t>(number)];
}

std::string Machine::place_name(Cause cause, std::uint32_t place) const {
  switch (cause) {
    case Cause::queue:
    case Cause::latency:
    case Cause::bytes:
    case Cause::hbm:
      return fabric_.routing().name(place);
    case Cause::issue:
    case Cause::busy:
    case Cause::compute:
    case Cause::dma:
    case Cause::tcm:
      return to_string(pes_[place].location());
    default:
      return "";
  }
}

std::optional<UnitClass> Machine::find_link_class(Cause cause, std::uint32_t place) const {
  const bool is_link = cause == Cause::queue || cause == Cause::latency || cause == Cause::bytes ||
                       cause == Cause::hbm;
  return is_link ? std::optional(fabric_.routing().find_class(place)) : std::nullopt;
}

template <class Visit>
void Machine::visit_units(const Visit& visit) const {
  const Routing& routing = fabric_.routing();
  for (LinkId link = 0; link < routing.link_count(); ++link) {
    if (!routing.is_there(link)) continue;
    visit(routing.find_class(link), fabric_.busy(link), [&] { return routing.name(link); });
  }
  for (const ProcessingElement& pe : pes_) {
    for (const PeUnitUse& use : pe.unit_uses()) {
      visit(use.unit_class, use.busy,
            [&] { return fmt::format("{}.{}", to_string(pe.location()), use.name); });
    }
  }
}

UnitUse Machine::busiest_unit() const {
  UnitUse busiest;
  visit_units([&](UnitClass, Time busy, const auto& name) {
    if (busy > busiest.busy) busiest = {name(), busy, Time{0}};
  });
  busiest.kernel_time = services_.kernel_time(engine_.now());
  return busiest;
}

std::array<UnitClassUse, kUnitClassCount> Machine::unit_classes() const {
  std::array<UnitClassUse, kUnitClassCount> classes;
  for (std::size_t i = 0; i < classes.size(); ++i) {
    classes[i].unit_class = static_cast<UnitClass>(i);
    classes[i].busiest.kernel_time = services_.kernel_time(engine_.now());
  }
  visit_units([&](UnitClass unit_class, Time busy, const auto& name) {
    UnitClassUse& use = classes[static_cast<std::size_t>(unit_class)];
    ++use.count;
    use.total += busy;
    if (busy <= use.busiest.busy) return;
    use.busiest.busy = busy;
    use.busiest.unit = name();
  });
  return classes;
}

ComputeTraffic Machine::compute_traffic() const {
  ComputeTraffic sum;
  for (const ProcessingElement& pe : pes_) sum += pe.compute_traffic();
  return sum;
}

IpcqChannel& Machine::connect(const IpcqChannel::Ends& ends, const IpcqParams& params) {
  KB_CHECK(ends.out.index >= 0 && ends.in.index >= 0, "ports {} and {}", to_string(ends.out),
           to_string(ends.in));
  ProcessingElement& receiver = pe(ends.to);
  KB_CHECK(pe(ends.from).ipcq().out(ends.out) == nullptr && receiver.ipcq().in(ends.in) == nullptr,
           "{} {} -> {} {} is connected already", to_string(ends.from), to_string(ends.out),
           to_string(ends.to), to_string(ends.in));
  KB_CHECK(params.depth > 0 && params.slot_bytes >= 0, "{} slots of {} B", params.depth,
           params.slot_bytes);
  queue_memory_.take(receiver, params);
  return add_channel(ends, params);
}

// A switch has no tables.
IpcqChannel& Machine::add_channel(const IpcqChannel::Ends& ends, const IpcqParams& params) {
  IpcqChannel& channel = channels_.emplace_back(engine_, fabric_, ends, params);
  places_.emplace(&channel, std::prev(channels_.end()));
  if (ends.from != kSwitchLocation) pe(ends.from).ipcq().connect_out(ends.out, &channel);
  if (ends.to != kSwitchLocation) pe(ends.to).ipcq().connect_in(ends.in, &channel);
  return channel;
}

SwitchSum& Machine::connect_switch_sum(std::span<const PeLocation> members,
                                       const IpcqParams& params) {
  KB_CHECK(topology_.system.network_switch.sums, "topology '{}' has no switch that adds up",
           topology_.name);
  std::vector<SwitchSum::Member> queues;
  for (const PeLocation& at : members) {
    const Port port = pe(at).ipcq().unused_port(Direction::global_up);
    queues.push_back({&add_channel({at, port, kSwitchLocation, {}}, params),
                      &add_channel({kSwitchLocation, {}, at, port}, params)});
  }
  return switch_sums_.emplace_back(services_, std::move(queues));
}

void Machine::disconnect(SwitchSum& sum) {
  const auto found =
      std::ranges::find_if(switch_sums_, [&](const SwitchSum& other) { return &other == &sum; });
  if (found == switch_sums_.end()) return;
  for (const auto& [to, from] : sum.members()) {
    disconnect(*to);
    disconnect(*from);
  }
  switch_sums_.erase(found);
}

void Machine::disconnect_all() {
  for (const IpcqChannel& channel : channels_) leave_tables(channel);
  queue_memory_.give_back_all();
  // A pending event may still refer to a disconnected queue; an idle engine has none.
  if (engine_.is_idle()) disconnected_.clear();
  disconnected_.splice(disconnected_.end(), channels_);
  places_.clear();
  switch_sums_.clear();
}

void Machine::disconnect(IpcqChannel& channel) {
  KB_CHECK(channel.params().slot_bytes == 0, "{} has slots", channel.name());
  const auto found = places_.find(&channel);
  KB_CHECK(found != places_.end(), "{} is not connected", channel.name());
  leave_tables(channel);
  if (engine_.is_idle()) disconnected_.clear();
  disconnected_.splice(disconnected_.end(), channels_, found->second);
  places_.erase(found);
}

void Machine::leave_tables(const IpcqChannel& channel) {
  const auto& [from, out, to, in] = channel.ends();
  if (from != kSwitchLocation) pe(from).ipcq().connect_out(out, nullptr);
  if (to != kSwitchLocation) pe(to).ipcq().connect_in(in, nullptr);
}

void Machine::abandon_work_under_way() {
  engine_.clear();
  if (trace_ != nullptr) trace_->cut(engine_.now());
  fabric_.reset();
  launcher_.reset();
  accesses_.clear();
  services_.commands.reset();
  services_.memory_order.clear();
  for (ProcessingElement& pe : pes_) pe.reset();
  for (IpcqChannel& channel : channels_) channel.reset();
  for (SwitchSum& sum : switch_sums_) sum.reset();
  disconnected_.clear();
}

}  // namespace kernbench::sim
