#include "sim_engine/components/processing_element.h"

#include <algorithm>
#include <utility>

#include "sim_engine/base/check.h"
#include "sim_engine/components/command_record.h"
#include "sim_engine/components/composite.h"
#include "sim_engine/components/gemm_array.h"
#include "sim_engine/components/kernel_run.h"

namespace kernbench::sim {

namespace {

std::uint64_t argument_of(const Command& command) {
  return reinterpret_cast<std::uintptr_t>(&command);
}
Command& command_of(std::uint64_t argument) {
  return *reinterpret_cast<Command*>(argument);
}

}  // namespace

// PE_CPU

void ProcessingElement::claim(const Event& begin) {
  if (is_claimed_) {
    claims_.push_back(begin);
    return;
  }
  is_claimed_ = true;
  begin.function(begin.object, begin.argument);
}

void ProcessingElement::release() {
  KB_CHECK(is_claimed_, "{} runs no kernel", to_string(location_));
  is_claimed_ = !claims_.empty();
  if (claims_.empty()) return;
  services_.engine.schedule(Time{0}, claims_.front());
  claims_.pop_front();
}

void ProcessingElement::kernel_ended() {
  --kernel_count_;
  scratch_may_be_free();
}

void ProcessingElement::forget_scratch_waiter(const Event& event) {
  std::erase_if(scratch_waiters_, [&](const Event& waiter) {
    return waiter.object == event.object && waiter.argument == event.argument;
  });
}

void ProcessingElement::wake_scratch_waiters() {
  for (const Event& waiter : std::exchange(scratch_waiters_, {})) {
    waiter.function(waiter.object, waiter.argument);
  }
}

// PE_SCHEDULER

void ProcessingElement::issue(Command& command, std::span<const Tile> hazards) {
  wait_for(command, command.a);
  wait_for(command, command.b);
  wait_for(command, command.c);
  for (const Tile& earlier : hazards) wait_for(command, earlier);
  if (command.missing_operands == 0) operands_ready(command);
}

void ProcessingElement::wait_for(Command& command, const Tile& operand) {
  if (!operand || operand->ready) return;
  for (const Tile& part : operand->parts) wait_for(command, part);
  if (!operand->parts.empty()) return;
  operand->waiters.push_back(&command);
  ++command.missing_operands;
}

// All operands are ready: schedules the dispatch to the unit.
void ProcessingElement::operands_ready(Command& command) {
  const Time now = services_.engine.now();
  const Time at = std::max(now, command.issued) + services_.topology.pe.scheduler_dispatch;
  services_.engine.schedule<&ProcessingElement::dispatch>(at - now, this, argument_of(command));
}

void ProcessingElement::make_ready(const Tile& tile) {
  tile->ready = true;
  for (Command* waiter : tile->waiters) {
    if (--waiter->missing_operands == 0) operands_ready(*waiter);
  }
  tile->waiters.clear();
}

void ProcessingElement::dispatch(std::uint64_t argument) {
  Command& command = command_of(argument);
  const Topology::Pe& pe = services_.topology.pe;
  command.started = services_.engine.now();
  switch (command.kind) {
    case Command::Kind::load:
      submit_dma(kLoad, command, translation_time(command));
      break;
    case Command::Kind::store:
      submit_dma(kStore, command, translation_time(command));
      break;
    case Command::Kind::math:
      start_math(command);
      break;
    case Command::Kind::gemm:
      if (command.departed) make_ready(command.departed);
      start_gemm(command);
      break;
    case Command::Kind::composite:
      command.composite->start();
      break;
    case Command::Kind::send:
    case Command::Kind::copy_to:
      depart(command);
      [[fallthrough]];
    case Command::Kind::receive:
      submit_dma(kCommunication, command, pe.ipcq_latency);
      break;
  }
}

// PE_DMA and PE_MMU

void ProcessingElement::submit_dma(Channel channel, Command& command, Time extra) {
  const Time now = services_.engine.now();
  const Time setup = services_.topology.pe.dma_setup;
  const Time start = dma_[channel].reserve(now, setup);
  if (command.kind == Command::Kind::load || command.kind == Command::Kind::store) {
    begin_access(command);
  }
  services_.fabric.send(path_of(command), command.bytes,
                        Engine::call<&ProcessingElement::finish>(this, argument_of(command)),
                        start + setup + extra - now);
}

// Rows lie in ascending order: a page that two of them share is translated once.
Time ProcessingElement::translation_time(const Command& command) const {
  const Topology::Pe& pe = services_.topology.pe;
  const ElementRange& elements = command.elements;
  if (command.bytes == 0) return Time{0};
  const Bytes size = size_of(command.buffer.dtype);
  std::int64_t pages = 0;
  Bytes translated = -1;  // the last page
  for (std::int64_t i = 0; i < elements.rows; ++i) {
    const ElementRange row = elements.row(i);
    const Bytes first = (command.buffer.address + row.begin * size) / pe.mmu_page;
    const Bytes last = (command.buffer.address + row.end() * size - 1) / pe.mmu_page;
    pages += last - std::max(first - 1, translated);
    translated = last;
  }
  return pe.mmu_latency * pages;
}

const Path& ProcessingElement::path_of(const Command& command) {
  switch (command.kind) {
    case Command::Kind::load:
      return load_path(command.buffer.home);
    case Command::Kind::store:
      return store_path(command.buffer.home);
    case Command::Kind::send:
      return command.channel->data_path();
    case Command::Kind::copy_to:
      return command.channel->copy_path();
    case Command::Kind::receive:
    case Command::Kind::math:
    case Command::Kind::gemm:
    case Command::Kind::composite:
      break;
  }
  return command.channel->pop_path();
}

const Path& ProcessingElement::load_path(const PeLocation& home) {
  if (home == location_ && own_load_path_ != nullptr) return *own_load_path_;
  const Path& path =
      services_.fabric.path({Endpoint::Kind::hbm, home}, {Endpoint::Kind::tcm, location_});
  if (home == location_) own_load_path_ = &path;
  return path;
}

const Path& ProcessingElement::store_path(const PeLocation& home) {
  if (home == location_ && own_store_path_ != nullptr) return *own_store_path_;
  const Path& path =
      services_.fabric.path({Endpoint::Kind::tcm, location_}, {Endpoint::Kind::hbm, home});
  if (home == location_) own_store_path_ = &path;
  return path;
}

// A load or store is under way from the moment its descriptor reaches the DMA.  At that moment a
// load determines the version that it reads.
void ProcessingElement::begin_access(Command& command) {
  const bool loads = command.kind == Command::Kind::load;
  if (command.composite == nullptr) {  // else the composite has begun its own
    const AccessOrigin origin{loads ? "tl.load" : "tl.store", location_, command.run->id()};
    command.access = services_.accesses.begin(command.buffer.region, command.elements,
                                              loads ? Access::read : Access::write, origin,
                                              services_.engine.now());
  }
  if (loads) {
    services_.memory.bind(command.result->value,
                          services_.memory.load(command.buffer.region, command.elements));
  }
}

void ProcessingElement::end_access(const Command& command) {
  if (command.composite == nullptr) services_.accesses.end(command.access);
}

// PE_MATH and PE_GEMM

void ProcessingElement::start_math(Command& command) {
  occupy(math_, command, cycles_time(command.cycles, services_.topology.pe.math_clock));
}

void ProcessingElement::start_gemm(Command& command) {
  const GemmSpec& array = services_.topology.pe.gemm;
  const auto use = gemm_array_use(array, command.gemm);
  KB_CHECK(use, "a GEMM of [{}, {}] x [{}, {}] in scratch", command.gemm.m, command.gemm.k,
           command.gemm.k, command.gemm.n);
  occupy(gemm_, command, cycles_time(use->cycles, array.clock));
}

void ProcessingElement::occupy(FifoServer& unit, Command& command, Time duration) {
  const Time now = services_.engine.now();
  command.started = unit.reserve(now, duration);
  services_.engine.schedule<&ProcessingElement::finish>(command.started + duration - now, this,
                                                        argument_of(command));
}

// PE_IPCQ

// A send has reached its unit: the next send of its queue may follow.
void ProcessingElement::depart(Command& command) {
  Tile& last = command.channel->last_departure();
  if (last == command.departed) last = {};
  make_ready(command.departed);
}

IpcqMessage ProcessingElement::message_of(const Command& command) {
  const TileNode& tile = *command.a.operator->();
  return {tile.value,   tile.dtype,      tile.element_count,
          tile.bytes,   command.started, command.run->operation(),
          command.arrow};
}

// True if the message is what its post expects; the post's tile then receives the value.
bool ProcessingElement::accept(const IpcqChannel& channel, IpcqPost& post, const Tile& tile,
                               IpcqMessage& message) {
  post.seen = channel.params().noticed(post.issued, services_.engine.now());
  if (message.dtype != tile->dtype || message.bytes != tile->bytes ||
      !share_messages(message.operation, post.run->operation())) {
    message.value = {};
    post.refused = message;
    post.state = IpcqPost::State::refused;
    return false;
  }
  if (message.operation == post.run->operation()) {
    --post.run->balance_.of(channel.ends().in_one_sip());
  }
  post.state = IpcqPost::State::arrived;
  tile->value = std::move(message.value);
  return true;
}

void ProcessingElement::receive(IpcqChannel& channel, IpcqPost& post, IpcqMessage message) {
  KernelRun& run = *post.run;
  const Tile tile = std::exchange(post.tile, {});
  if (accept(channel, post, tile, message)) {
    take_out(channel, run, post.seen, tile, message.arrow);
  } else {
    channel.release_slot();
  }
  if (std::exchange(post.wakes, false)) run.wake_.function(run.wake_.object, run.wake_.argument);
}

void ProcessingElement::receive_in_place(IpcqChannel& channel, IpcqPost& post,
                                         IpcqMessage message) {
  KernelRun& run = *post.run;
  const Tile tile = std::exchange(post.tile, {});
  if (accept(channel, post, tile, message)) {
    Command command;  // that takes no time
    command.kind = Command::Kind::receive;
    command.started = services_.engine.now();
    command.result = tile;
    command.channel = &channel;
    command.arrow = message.arrow;
    record(command);
    make_ready(tile);
  }
  if (std::exchange(post.wakes, false)) run.wake_.function(run.wake_.object, run.wake_.argument);
}

// Issues the command that empties a slot, without the PE_CPU.
void ProcessingElement::take_out(IpcqChannel& channel, KernelRun& run, Time issued,
                                 const Tile& tile, std::uint32_t arrow) {
  Command& command = services_.commands.make();
  command.kind = Command::Kind::receive;
  command.run = &run;
  command.issued = issued;
  command.result = tile;
  command.bytes = tile->bytes;
  command.channel = &channel;
  command.arrow = arrow;
  ++run.outstanding_;
  operands_ready(command);
}

// Every command ends here.

void ProcessingElement::finish(std::uint64_t argument) {
  Command& command = command_of(argument);
  take_effect(command);
  record(command);
  KernelRun& run = *command.run;
  const Command::Kind kind = command.kind;
  Composite* const composite = command.composite;
  make_ready(command.result);
  services_.commands.give_back(command);
  if (composite != nullptr && kind != Command::Kind::composite) {
    composite->part_ended(kind);
    return;
  }
  if (composite != nullptr) run.forget(*composite);
  run.command_finished();
}

void ProcessingElement::end_composite(Command& command) {
  finish(argument_of(command));
}

void ProcessingElement::take_effect(Command& command) {
  switch (command.kind) {
    case Command::Kind::load:
      command.run->traffic_.loaded += command.bytes;
      end_access(command);
      break;
    case Command::Kind::store:
      command.run->traffic_.stored += command.bytes;
      services_.memory.store(command.buffer.region, command.elements, command.a->value);
      end_access(command);
      break;
    case Command::Kind::send:
      command.channel->deliver(command.number, message_of(command));
      break;
    case Command::Kind::copy_to:
      command.channel->deliver_in_place(command.number, message_of(command));
      break;
    case Command::Kind::receive:
      command.channel->release_slot();
      break;
    case Command::Kind::composite:
      command.run->composite_window_.add(command.started, services_.engine.now());
      break;
    case Command::Kind::math:
    case Command::Kind::gemm:
      break;
  }
}

void ProcessingElement::record(const Command& command) {
  const Time now = services_.engine.now();
  const OpRecord op = record_of(command, number_, now);
  services_.op_log.append(op);
  services_.engine.fold(digest(op));
  if (services_.trace != nullptr) trace(*services_.trace, command, op, location_);
}

std::pair<std::string_view, Time> ProcessingElement::busiest_unit() const {
  const Time now = services_.engine.now();
  std::pair<std::string_view, Time> busiest;
  const auto consider = [&](std::string_view unit, Time busy) {
    if (busy > busiest.second) busiest = {unit, busy};
  };
  consider("cpu", std::min(cpu_busy_, now));  // it runs ahead of simulated time
  consider("load", dma_[kLoad].busy(now));
  consider("store", dma_[kStore].busy(now));
  consider("communication", dma_[kCommunication].busy(now));
  consider("math", math_.busy(now));
  consider("gemm", gemm_.busy(now));
  return busiest;
}

void ProcessingElement::reset() {
  const Time now = services_.engine.now();
  for (FifoServer& channel : dma_) channel.release(now);
  math_.release(now);
  gemm_.release(now);
  is_claimed_ = false;
  claims_.clear();
  kernel_count_ = 0;
  scratch_waiters_.clear();
}

}  // namespace kernbench::sim
