#include "sim_engine/components/machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <iterator>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sim_engine/base/check.h"
#include "sim_engine/components/fabric.h"
#include "sim_engine/components/hbm_allocator.h"
#include "sim_engine/components/ipcq.h"
#include "sim_engine/components/launcher.h"
#include "sim_engine/components/machine_faults.h"
#include "sim_engine/components/processing_element.h"
#include "sim_engine/components/queue_memory.h"
#include "sim_engine/components/switch_sum.h"
#include "sim_engine/components/work_log.h"
#include "sim_engine/trace/trace_recorder.h"

namespace kernbench::sim {

namespace {

const Topology& checked(const Topology& topology) {
  topology.check();
  return topology;
}

std::vector<HbmAllocator> make_hbm(const Topology& topology, const Folding& folding) {
  std::vector<HbmAllocator> hbm;
  for (int sip = 0; sip < topology.system.sip_count; ++sip) {
    if (folding.is_simulated(sip)) hbm.emplace_back(topology, sip);
  }
  return hbm;
}

}  // namespace

struct Machine::Parts {
  Parts(Machine& machine, const MachineOptions& options)
      : trace(options.trace ? std::make_unique<TraceRecorder>() : nullptr),
        fabric(machine.engine_, machine.topology_, trace.get(), options.fold),
        faults(MachineFaults::make(machine.topology_, fabric.routing())),
        launcher(machine.engine_, fabric, machine.topology_),
        hbm(make_hbm(machine.topology_, machine.folding_)),
        queue_memory(machine.topology_, hbm),
        services{machine.topology_,
                 machine.engine_,
                 fabric,
                 machine.memory_,
                 machine.accesses_,
                 machine.op_log_,
                 trace.get(),
                 {machine.topology_, fabric, queue_memory},
                 {},
                 {},
                 {}} {
    services.faults = faults.get();
    services.has_fixed_tiles = options.fixed_tiles;
    if (faults != nullptr && faults->has_links()) fabric.set_faults(*faults);
  }

  // Calls visit(class, busy, name) for each unit, where name() makes its name.
  template <class Visit>
  void visit_units(const Visit& visit) const {
    const Routing& routing = fabric.routing();
    for (LinkId link = 0; link < routing.link_count(); ++link) {
      if (!routing.is_there(link)) continue;
      visit(routing.find_class(link), fabric.busy(link), [&] { return routing.name(link); });
    }
    for (const ProcessingElement& pe : pes) {
      for (const PeUnitUse& use : pe.unit_uses()) {
        visit(use.unit_class, use.busy,
              [&] { return fmt::format("{}.{}", to_string(pe.location()), use.name); });
      }
    }
  }

  std::unique_ptr<TraceRecorder> trace;
  std::unique_ptr<WorkLog> work = nullptr;
  Fabric fabric;
  const std::unique_ptr<MachineFaults> faults;
  Launcher launcher;
  std::vector<HbmAllocator> hbm;  // by SIP
  QueueMemory queue_memory;
  std::deque<ProcessingElement> pes;  // by SIP, cube, PE; addresses stay
  PeServices services;                // destroyed before pes, to which its tiles give scratch back
  std::list<IpcqChannel> channels;
  std::unordered_map<const IpcqChannel*, std::list<IpcqChannel>::iterator> places;  // in channels
  std::list<IpcqChannel> disconnected;  // kept until nothing can refer to them
  std::list<SwitchSum> switch_sums;
};

Machine::Machine(const Topology& topology, const MachineOptions& options)
    : topology_(checked(topology)),
      folding_(topology, options.fold),
      memory_(options.data),
      op_log_(options.op_log_limit),
      parts_(std::make_unique<Parts>(*this, options)) {
  if (options.shuffle_ties) engine_.shuffle_ties(*options.shuffle_ties);
  if (options.profile) engine_.record_causes();
  if (options.energy) count_work();
  KB_CHECK(!folding_.is_on() || Folding::find_obstacle(topology_, options.fold).empty(),
           "unlike SIPs are folded");
  std::vector<int> firsts;
  for (int sip = 0; sip < topology_.system.sip_count; ++sip) {
    firsts.push_back(folding_.first_of(sip));
  }
  engine_.set_stand_ins(std::move(firsts));
  std::uint32_t number = 0;
  for (int sip = 0; sip < topology_.system.sip_count; ++sip) {
    if (!folding_.is_simulated(sip)) continue;
    for (int cube = 0; cube < topology_.cube_count(); ++cube) {
      for (int pe = 0; pe < topology_.pe_count(); ++pe) {
        parts_->pes.emplace_back(parts_->services, PeLocation{sip, cube, pe}, number++);
      }
    }
  }
}

Machine::~Machine() = default;

Fabric& Machine::fabric() {
  return parts_->fabric;
}
const Fabric& Machine::fabric() const {
  return parts_->fabric;
}
Launcher& Machine::launcher() {
  return parts_->launcher;
}
TraceRecorder* Machine::trace() {
  return parts_->trace.get();
}
const TraceRecorder* Machine::trace() const {
  return parts_->trace.get();
}
HbmAllocator& Machine::hbm(int sip) {
  return parts_->hbm[static_cast<std::size_t>(folding_.index_of(sip))];
}
std::list<IpcqChannel>& Machine::channels() {
  return parts_->channels;
}
const std::list<IpcqChannel>& Machine::channels() const {
  return parts_->channels;
}

std::pair<PeLocation, PeLocation> Machine::shift(PeLocation from, PeLocation to) const {
  to.sip = folding_.shift(to.sip, from.sip);
  from.sip = folding_.first_of(from.sip);
  return {from, to};
}

ProcessingElement& Machine::pe(const PeLocation& at) {
  KB_CHECK(exists(topology_, at), "there is no {}", to_string(at));
  const int sip = folding_.index_of(at.sip);
  const int number = (sip * topology_.cube_count() + at.cube) * topology_.pe_count() + at.pe;
  return parts_->pes[static_cast<std::size_t>(number)];
}

std::string Machine::place_name(Cause cause, std::uint32_t place) const {
  switch (cause) {
    case Cause::queue:
    case Cause::latency:
    case Cause::bytes:
    case Cause::hbm:
      return parts_->fabric.routing().name(place);
    case Cause::issue:
    case Cause::busy:
    case Cause::compute:
    case Cause::dma:
    case Cause::tcm:
      return to_string(parts_->pes[place].location());
    default:
      return "";
  }
}

std::optional<UnitClass> Machine::find_link_class(Cause cause, std::uint32_t place) const {
  const bool is_link = cause == Cause::queue || cause == Cause::latency || cause == Cause::bytes ||
                       cause == Cause::hbm;
  return is_link ? std::optional(parts_->fabric.routing().find_class(place)) : std::nullopt;
}

UnitUse Machine::busiest_unit() const {
  UnitUse busiest;
  parts_->visit_units([&](UnitClass, Time busy, const auto& name) {
    if (busy > busiest.busy) busiest = {name(), busy, Time{0}};
  });
  busiest.kernel_time = parts_->services.kernel_time(engine_.now());
  return busiest;
}

std::array<UnitClassUse, kUnitClassCount> Machine::unit_classes() const {
  std::array<UnitClassUse, kUnitClassCount> classes;
  for (std::size_t i = 0; i < classes.size(); ++i) {
    classes[i].unit_class = static_cast<UnitClass>(i);
    classes[i].busiest.kernel_time = parts_->services.kernel_time(engine_.now());
  }
  parts_->visit_units([&](UnitClass unit_class, Time busy, const auto& name) {
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
  for (int i = 0; i < folding_.sips_of_each(); ++i) {
    for (const ProcessingElement& pe : parts_->pes) sum += pe.compute_traffic();
  }
  return sum;
}

void Machine::count_work() {
  if (topology_.energy == EnergySpec{} || parts_->work != nullptr) return;
  parts_->work = std::make_unique<WorkLog>();
  parts_->services.work = parts_->work.get();
  parts_->fabric.keep_work(*parts_->work);
}

MachineFaults* Machine::faults() {
  return parts_->faults.get();
}
const MachineFaults* Machine::faults() const {
  return parts_->faults.get();
}

const WorkLog* Machine::work() const {
  return parts_->work.get();
}

IpcqChannel& Machine::connect(const IpcqEnds& ends, const IpcqParams& params) {
  KB_CHECK(ends.out.index >= 0 && ends.in.index >= 0, "ports {} and {}", to_string(ends.out),
           to_string(ends.in));
  ProcessingElement& receiver = pe(ends.to);
  KB_CHECK(pe(ends.from).ipcq().out(ends.out) == nullptr && receiver.ipcq().in(ends.in) == nullptr,
           "{} {} -> {} {} is connected already", to_string(ends.from), to_string(ends.out),
           to_string(ends.to), to_string(ends.in));
  KB_CHECK(params.depth > 0 && params.slot_bytes >= 0, "{} slots of {} B", params.depth,
           params.slot_bytes);
  if (!params.is_reserved) parts_->queue_memory.take(receiver, params);
  return add_channel(ends, params);
}

bool Machine::reserve_for_queues(const PeLocation& receiver, Bytes bytes) {
  return parts_->queue_memory.reserve_sram(receiver, bytes);
}

// A switch has no tables.
IpcqChannel& Machine::add_channel(const IpcqEnds& ends, const IpcqParams& params) {
  IpcqChannel& channel = parts_->channels.emplace_back(engine_, parts_->fabric, ends, params);
  parts_->places.emplace(&channel, std::prev(parts_->channels.end()));
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
  return parts_->switch_sums.emplace_back(parts_->services, std::move(queues));
}

void Machine::disconnect(SwitchSum& sum) {
  const auto found = std::ranges::find_if(parts_->switch_sums,
                                          [&](const SwitchSum& other) { return &other == &sum; });
  if (found == parts_->switch_sums.end()) return;
  for (const auto& [to, from] : sum.members()) {
    disconnect(*to);
    disconnect(*from);
  }
  parts_->switch_sums.erase(found);
}

void Machine::disconnect_all() {
  for (const IpcqChannel& channel : parts_->channels) leave_tables(channel);
  parts_->queue_memory.give_back_all();
  // A pending event may still refer to a disconnected queue; an idle engine has none.
  if (engine_.is_idle()) parts_->disconnected.clear();
  parts_->disconnected.splice(parts_->disconnected.end(), parts_->channels);
  parts_->places.clear();
  parts_->switch_sums.clear();
}

void Machine::disconnect(IpcqChannel& channel) {
  const IpcqParams& params = channel.params();
  KB_CHECK(params.slot_bytes == 0 || params.is_reserved, "{} has slots", channel.name());
  const auto found = parts_->places.find(&channel);
  KB_CHECK(found != parts_->places.end(), "{} is not connected", channel.name());
  leave_tables(channel);
  if (engine_.is_idle()) parts_->disconnected.clear();
  parts_->disconnected.splice(parts_->disconnected.end(), parts_->channels, found->second);
  parts_->places.erase(found);
}

void Machine::leave_tables(const IpcqChannel& channel) {
  const auto& [from, out, to, in] = channel.ends();
  if (from != kSwitchLocation) pe(from).ipcq().connect_out(out, nullptr);
  if (to != kSwitchLocation) pe(to).ipcq().connect_in(in, nullptr);
}

void Machine::abandon_work_under_way() {
  engine_.clear();
  if (parts_->trace != nullptr) parts_->trace->cut(engine_.now());
  parts_->fabric.reset();
  parts_->launcher.reset();
  accesses_.clear();
  parts_->services.commands.reset();
  parts_->services.memory_order.clear();
  parts_->services.shared_tiles.reset();
  for (ProcessingElement& pe : parts_->pes) pe.reset();
  for (IpcqChannel& channel : parts_->channels) channel.reset();
  for (SwitchSum& sum : parts_->switch_sums) sum.reset();
  parts_->disconnected.clear();
}

}  // namespace kernbench::sim
