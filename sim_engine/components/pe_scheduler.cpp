#include "sim_engine/components/pe_scheduler.h"

#include <algorithm>
#include <utility>

#include "sim_engine/base/check.h"
#include "sim_engine/components/command_record.h"
#include "sim_engine/components/gemm_array.h"
#include "sim_engine/components/ipcq.h"
#include "sim_engine/components/work_log.h"

namespace kernbench::sim {

namespace {

// A function object of several lambdas, one for each kind of command.
template <class... Functions>
struct Overloaded : Functions... {
  using Functions::operator()...;
};
template <class... Functions>
Overloaded(Functions...) -> Overloaded<Functions...>;

IpcqMessage make_message(const Command& command, const work::Outgoing& outgoing) {
  const TileNode& tile = *command.operands[0].operator->();
  return {tile.value,      tile.dtype,         tile.element_count, tile.bytes,
          command.started, outgoing.operation, outgoing.arrow};
}

// A unit serves the present event's command from `start` to `end`, after a wait for the unit.
CauseLog::Id cause_after_wait(Engine& engine, std::uint32_t pe, Cause wait, Time start, Cause why,
                              Time end) {
  CauseLog* const causes = engine.causes();
  if (causes == nullptr) [[likely]]
    return {};
  const CauseLog::Id begun = causes->add(causes->current(), start, wait, pe);
  return causes->add(begun, end, why, pe);
}

}  // namespace

void PeScheduler::issue(Command& command, std::span<const Tile> hazards) {
  for (const Tile& operand : command.operands) {
    if (operand && !operand->ready) wait_for(command, operand);
  }
  for (const Tile& earlier : hazards) wait_for(command, earlier);
  if (command.missing_operands == 0) operands_ready(command);
}

void PeScheduler::wait_for(Command& command, const Tile& operand) {
  if (!operand || operand->ready) return;
  if (!operand->parts.empty()) return wait_for_parts(command, operand);
  if (operand->first_waiter == nullptr) {
    operand->first_waiter = &command;
  } else {
    operand->later_waiters.push_back(&command);
  }
  ++command.missing_operands;
}

// A view has no command of its own that makes it ready, so the command waits for the tiles that it
// shows.
void PeScheduler::wait_for_parts(Command& command, const Tile& view) {
  const std::vector<Tile>& parts = view->parts;
  const auto missing = command.missing_operands;
  for (std::size_t i = view->ready_parts; i < parts.size(); ++i) {
    wait_for(command, parts[i]);
    if (command.missing_operands == missing) view->ready_parts = i + 1;
  }
  view->ready = view->ready_parts == parts.size();
}

// All operands are ready: schedules the dispatch to the unit.
void PeScheduler::operands_ready(Command& command) {
  const Time now = services_.engine.now();
  // The PE_CPU's clock may be ahead of simulated time, so a command may be issued in the future.
  const Time at = std::max(now, command.issued) + services_.topology.pe.scheduler_dispatch;
  const Event event = Engine::call<&PeScheduler::dispatch>(this, command);
  CauseLog* const causes = services_.engine.causes();
  if (causes == nullptr) [[likely]]
    return void(services_.engine.schedule(at - now, event));
  const CauseLog::Id cause = command.issued > now ? command.cause : causes->current();
  services_.engine.schedule_after(causes->add(cause, at, Cause::issue, number_), at - now, event);
}

void PeScheduler::make_ready(const Tile& tile) {
  tile->ready = true;
  Command* const first = std::exchange(tile->first_waiter, nullptr);
  if (first == nullptr) return;
  operand_ready(*first);
  for (Command* waiter : tile->later_waiters) operand_ready(*waiter);
  tile->later_waiters.clear();
}

void PeScheduler::operand_ready(Command& command) {
  if (--command.missing_operands == 0) operands_ready(command);
}

void PeScheduler::dispatch(Command& command) {
  command.started = services_.engine.now();
  std::visit([&](auto& work) { start(command, work); }, command.work);
}

// PE_DMA and PE_MMU

void PeScheduler::start(Command& command, work::Load& load) {
  // Values are bound here and not at the end, because a later store may overwrite the elements
  // while the bytes are under way.
  if (load.blocks.empty()) {
    begin_access(load, Access::read);
    // A load of several blocks is put together for its values alone; another one checks its place.
    if (load.operand == nullptr || services_.memory.has_data()) {
      services_.memory.bind(command.result->value, load_value(services_.memory, load));
    }
  }
  for (work::ChosenBlock& block : load.blocks) {
    block.id = begin_access(block, Access::read, load.kernel);
    services_.memory.bind(block.value, services_.memory.load(block.buffer.region, block.elements));
  }
  if (load.is_shared) return load_shared(command, load);
  submit_dma(command.is_of_collective ? kCollectiveLoad : kLoad, command,
             load_path(load.buffer.home), command.bytes, translation_time(load));
}

void PeScheduler::start(Command& command, work::Store& store) {
  begin_access(store, Access::write);
  submit_dma(command.is_of_collective ? kCollectiveStore : kStore, command,
             store_path(store.buffer.home), command.bytes, translation_time(store));
}

void PeScheduler::start(Command& command, const work::Send& send) {
  depart(command, *send.channel);
  submit_message(command, *send.channel, send.channel->data_path());
}

void PeScheduler::start(Command& command, const work::CopyTo& copy) {
  depart(command, *copy.channel);
  submit_message(command, *copy.channel, copy.channel->copy_path());
}

void PeScheduler::start(Command& command, const work::Receive& receive) {
  submit_dma(kCommunication, command, receive.channel->pop_path(), command.bytes,
             services_.topology.pe.ipcq_latency);
}

// A send has reached its unit: the next send of its queue may follow.
void PeScheduler::depart(Command& command, IpcqChannel& channel) {
  if (channel.last_send() == &command) channel.last_send() = nullptr;
  Command* const next = std::exchange(command.next_send, nullptr);
  if (next != nullptr) operand_ready(*next);
}

void PeScheduler::submit_message(Command& command, const IpcqChannel& channel, const Path& path) {
  const IpcqParams& params = channel.params();
  submit_dma(kCommunication, command, path, params.on_the_wire(command.bytes),
             services_.topology.pe.ipcq_latency + params.message_latency);
}

// Returns when the channel begins to set the command up.
Time PeScheduler::reserve_dma(Channel channel, Command& command) {
  const Time now = services_.engine.now();
  const Time start = dma_[channel].reserve(now, services_.topology.pe.dma_setup);
  if (start > now) command.issuer->waits()[WaitCause::dma] += start - now;
  return start;
}

void PeScheduler::submit_dma(Channel channel, Command& command, const Path& path, Bytes bytes,
                             Time extra) {
  const Time now = services_.engine.now();
  const Time setup = services_.topology.pe.dma_setup;
  const Time start = reserve_dma(channel, command);
  // Collectives' traffic goes ahead of users' at links with packets, since other PEs wait for it.
  const bool is_users = channel == kLoad || channel == kStore;
  services_.fabric.send(path, bytes, end_of_transfer(path, command), start + setup + extra - now,
                        is_users ? Priority::bulk : Priority::communication,
                        cause_of_service(start, start + setup + extra, Cause::dma));
}

Event PeScheduler::end_of_transfer(const Path& path, Command& command) {
  return path.hops.empty() ? Engine::call<&PeScheduler::finish>(this, command)
                           : Engine::call<&PeScheduler::transferred>(this, command);
}

void PeScheduler::transferred(Command& command) {
  const auto [link, hbm] = services_.fabric.waiting_of_delivered();
  Waits& waits = command.issuer->waits();
  waits[WaitCause::link] += link;
  waits[WaitCause::hbm] += hbm;
  finish(command);
}

Time PeScheduler::translation_time(const work::HbmAccess& access) const {
  const Topology::Pe& pe = services_.topology.pe;
  return pe.mmu_latency * count_pages(access, pe.mmu_page);
}

const Path& PeScheduler::load_path(const PeLocation& home) {
  if (home == location_ && own_load_path_ != nullptr) return *own_load_path_;
  const Path& path =
      services_.fabric.path({Endpoint::Kind::hbm, home}, {Endpoint::Kind::tcm, location_});
  if (home == location_) own_load_path_ = &path;
  return path;
}

const Path& PeScheduler::store_path(const PeLocation& home) {
  if (home == location_ && own_store_path_ != nullptr) return *own_store_path_;
  const Path& path =
      services_.fabric.path({Endpoint::Kind::tcm, location_}, {Endpoint::Kind::hbm, home});
  if (home == location_) own_store_path_ = &path;
  return path;
}

// A load or store is under way from the moment its descriptor reaches the DMA.  At that moment a
// load determines the version that it reads.
void PeScheduler::begin_access(work::HbmAccess& access, Access kind) {
  // A part of a composite is not tracked by itself: the composite has begun its accesses as a
  // whole.
  if (access.kernel != 0) access.id = begin_access(access, kind, access.kernel);
}

AccessId PeScheduler::begin_access(const HbmPart& part, Access kind, std::uint64_t kernel) {
  const AccessOrigin origin{kind == Access::read ? "tl.load" : "tl.store", location_, kernel};
  return services_.accesses.begin(part.buffer.region, part.elements, kind, origin,
                                  services_.engine.now());
}

void PeScheduler::end_access(const work::HbmAccess& access) {
  if (access.kernel != 0) services_.accesses.end(access.id);
}

// PE_MATH and PE_GEMM

void PeScheduler::start(Command& command, const work::Math& math) {
  Bytes operands = 0;
  for (const Tile& operand : command.operands) {
    if (operand) operands += operand->bytes;
  }
  if (services_.work != nullptr) note_work(EnergyUnit::math, math.lane_operations);
  compute(math_, command, cycles_time(math.cycles, services_.topology.pe.math_clock),
          {math.passes.reads * operands, math.passes.writes * command.result->bytes});
}

void PeScheduler::start(Command& command, const work::Gemm& gemm) {
  // Products of a composite reach the array in order: the next one waits for this departure.
  if (command.departed) make_ready(command.departed);
  const GemmSpec& array = services_.topology.pe.gemm;
  const GemmOperands operands{size_of(command.operands[0]->dtype),
                              size_of(command.operands[1]->dtype), size_of(command.result->dtype),
                              gemm.added_to};
  const auto use = gemm_array_use(array, gemm.size, std::max(operands.of_a, operands.of_b));
  KB_CHECK(use, "a GEMM of [{}, {}] x [{}, {}] in scratch", gemm.size.m, gemm.size.k, gemm.size.k,
           gemm.size.n);
  if (services_.work != nullptr) note_work(energy_unit_of(operands), count_flops(gemm.size));
  compute(gemm_, command, cycles_time(use->cycles, array.clock),
          gemm_traffic(array, gemm.size, operands));
}

void PeScheduler::start(Command&, const work::Composite& composite) {
  composite.start.function(composite.start.object, composite.start.argument);
}

void PeScheduler::compute(ComputeUnit& unit, Command& command, Time cycles,
                          const ComputeTraffic& traffic) {
  const Time now = services_.engine.now();
  const Bandwidth port = services_.topology.pe.tcm.compute_bandwidth;
  const Time reading = transfer_time(traffic.read, port);
  const Time writing = transfer_time(traffic.written, port);
  Time duration = std::max({cycles, reading, writing});
  if (services_.faults != nullptr) [[unlikely]]
    duration = slowed_down(command, unit.server.next_start(now), duration);
  // A wait for a unit that a port of TCM holds until its end is one for that port.
  const Time ports_free = std::max(unit.read_port.next_start(now), unit.write_port.next_start(now));
  const Cause wait = ports_free == unit.server.next_start(now) ? Cause::tcm : Cause::busy;
  command.started = unit.server.reserve(now, duration);
  unit.read_port.reserve(command.started, reading);
  unit.write_port.reserve(command.started, writing);
  compute_traffic_ += traffic;
  if (services_.work != nullptr) note_work(EnergyUnit::tcm, traffic.read + traffic.written);
  if (command.started > now) command.issuer->waits()[WaitCause::unit] += command.started - now;
  const Time end = command.started + duration;
  // A unit that waits for its ports would not be faster with a faster array, so the time counts for
  // the port.
  const Cause why = duration > cycles ? Cause::tcm : Cause::compute;
  services_.engine.schedule_after(
      cause_after_wait(services_.engine, number_, wait, command.started, why, end), end - now,
      Engine::call<&PeScheduler::finish>(this, command));
}

void PeScheduler::note_work(EnergyUnit unit, std::int64_t amount) {
  services_.work->add(unit, services_.engine.now(), amount);
}

CauseLog::Id PeScheduler::cause_of_service(Time start, Time end, Cause why) const {
  return cause_after_wait(services_.engine, number_, Cause::busy, start, why, end);
}

// Every command ends here.

void PeScheduler::finish(Command& command) {
  // The effect comes before the record and the wake-ups, so that whoever is woken finds the result.
  take_effect(command);
  record(command);
  if (command.result) make_ready(command.result);
  CommandPool::let_go_of_tiles(command);
  command.issuer->completed(command);
  services_.commands.give_back(command);
}

void PeScheduler::take_effect(const Command& command) {
  std::visit(Overloaded{
                 [&](const work::Load& load) {
                   if (load.blocks.empty()) end_access(load);
                   for (const work::ChosenBlock& block : load.blocks) {
                     services_.accesses.end(block.id);
                   }
                 },
                 [&](const work::Store& store) {
                   store_value(services_.memory, store, value_to_store(command));
                   end_access(store);
                 },
                 [&](const work::Send& send) {
                   IpcqMessage message = make_message(command, send);
                   if (!arrives(*send.channel, message)) return;
                   send.channel->deliver(send.number, message);
                 },
                 [&](const work::CopyTo& copy) {
                   IpcqMessage message = make_message(command, copy);
                   if (!arrives(*copy.channel, message)) return;
                   copy.channel->deliver_in_place(copy.number, message);
                 },
                 [](const work::Receive& receive) { receive.channel->release_slot(); },
                 [](const auto&) {},
             },
             command.work);
}

void PeScheduler::finish_receive_in_place(const Command& command) {
  record(command);
  make_ready(command.result);
}

void PeScheduler::record(const Command& command) {
  const Time now = services_.engine.now();
  const OpRecord op = make_record(command, number_, now);
  services_.op_log.append(op);
  services_.engine.fold(digest(op, pes_of_sip(services_.topology)), location_.sip);
  if (services_.trace != nullptr) trace(*services_.trace, command, op, location_);
}

std::array<PeUnitUse, 11> PeScheduler::unit_uses() const {
  const Time now = services_.engine.now();
  return {{{UnitClass::dma, "load", dma_[kLoad].busy(now)},
           {UnitClass::dma, "store", dma_[kStore].busy(now)},
           {UnitClass::dma, "communication", dma_[kCommunication].busy(now)},
           {UnitClass::dma, "collective load", dma_[kCollectiveLoad].busy(now)},
           {UnitClass::dma, "collective store", dma_[kCollectiveStore].busy(now)},
           {UnitClass::tcm, "math.read", math_.read_port.busy(now)},
           {UnitClass::tcm, "math.write", math_.write_port.busy(now)},
           {UnitClass::tcm, "gemm.read", gemm_.read_port.busy(now)},
           {UnitClass::tcm, "gemm.write", gemm_.write_port.busy(now)},
           {UnitClass::math, "math", math_.server.busy(now)},
           {UnitClass::gemm, "gemm", gemm_.server.busy(now)}}};
}

void PeScheduler::ComputeUnit::release(Time now) {
  server.release(now);
  read_port.release(now);
  write_port.release(now);
}

void PeScheduler::reset() {
  const Time now = services_.engine.now();
  for (FifoServer& channel : dma_) channel.release(now);
  math_.release(now);
  gemm_.release(now);
}

}  // namespace kernbench::sim
