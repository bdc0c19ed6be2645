#include "sim_engine/components/kernel_run.h"

#include <algorithm>
#include <utility>

#include "sim_engine/base/check.h"
#include "sim_engine/components/machine_faults.h"
#include "sim_engine/components/math_timing.h"

namespace kernbench::sim {

KernelRun::KernelRun(ProcessingElement& pe, const Event& wake, const Operation& operation)
    : pe_(pe),
      wake_(wake),
      operation_(operation),
      id_(++pe.services().kernel_count),
      started_(pe.services().engine.now()),
      cpu_clock_(started_) {
  pe.services().begin_kernel();
  MachineFaults* const faults = pe.services().faults;
  if (faults != nullptr && !operation.is_collective) faults->begin_kernel(pe.location());
  if (const CauseLog* const causes = pe.services().engine.causes()) {
    clock_cause_ = causes->current();
  }
}

KernelRun::~KernelRun() {
  withdraw_receives();
  pe_.waits() += waits_;
  pe_.services().end_kernel();
}

void KernelRun::spend(Time time) {
  cpu_clock_ = clock() + time;
  pe_.count_cpu(time);
}

Command& KernelRun::issue_next() {
  spend(pe_.services().topology.pe.cpu_issue);
  Command& command = pe_.services().commands.make();
  command.issuer = this;
  command.issued = cpu_clock_;
  command.cause = cause_of_clock();
  command.is_of_collective = operation_.is_collective;
  return command;
}

// The cause of the PE_CPU's present time: it has issued commands since the last thing that it
// waited for.
CauseLog::Id KernelRun::cause_of_clock() const {
  CauseLog* const causes = pe_.services().engine.causes();
  if (causes == nullptr) [[likely]]
    return {};
  return causes->add(clock_cause_, cpu_clock_, Cause::issue, pe_.scheduler().number());
}

void KernelRun::submit(Command& command) {
  ++outstanding_;
  pe_.scheduler().issue(command, hazards_);
  hazards_.clear();  // they hold scratch
}

// Commands on overlapping elements run in the order of their issue, so the new one waits for those
// before it.
void KernelRun::submit(Command& command, const MemoryUse& use, AccessIndex::Id& noted) {
  find_hazards(use);
  submit(command);
  pe_.services().memory_order.note(accesses_, use, command, noted);
}

// A composite is noted only when another access follows.  Mostly none does, and the matrices of a
// product on many PEs lie in as many blocks.
void KernelRun::find_hazards(const MemoryUse& use) {
  for (const auto& composite : composites_) note(*composite);
  pe_.services().memory_order.find(accesses_, use, hazards_);
}

void KernelRun::note(Composite& composite) {
  std::vector<AccessIndex::Id>& noted = composite.noted();
  if (!noted.empty()) return;
  noted.resize(count_memory_uses(composite.plan()), AccessIndex::kNone);
  auto id = noted.begin();
  for_each_memory_use(composite.plan(), [&](const MemoryUse& use) {
    pe_.services().memory_order.note(accesses_, use, composite.command(), *id++);
  });
}

Tile KernelRun::load(const DeviceBuffer& buffer, const ElementRange& elements, bool is_shared) {
  PeServices& services = pe_.services();
  const std::int64_t count = elements.count();
  Command& command = issue_next();
  const Tile result = services.tiles.make(buffer.dtype, count, &account());
  // The elements are bound when the load reaches the DMA.  Until then the value is a placeholder,
  // which later commands can refer to.
  result->value = services.memory.declare(buffer.dtype, count);
  command.result = result;
  command.bytes = result->bytes;
  const MemoryUse use{buffer.region, elements.simplified(), false};
  command.work = work::Load{{{buffer, use.elements}, id_}, is_shared};
  submit(command, use, std::get<work::Load>(command.work).noted);
  return result;
}

void KernelRun::store(const DeviceBuffer& buffer, const ElementRange& elements, const Tile& tile) {
  Command& command = issue_next();
  const Tile done = make_signal();
  command.operands[0] = tile;
  command.result = done;
  command.bytes = tile->bytes;
  const MemoryUse use{buffer.region, elements.simplified(), true};
  command.work = work::Store{{{buffer, use.elements}, id_}};
  submit(command, use, std::get<work::Store>(command.work).noted);
}

template <class... Form>
work::Math KernelRun::math_work(std::string_view operation, const Form&... form) const {
  const PeServices& services = pe_.services();
  work::Math math{math_cycles(services.topology.pe, form...), operation};
  if (services.work != nullptr) {
    math.lane_operations = count_lane_operations(services.topology.pe, form...);
  }
  return math;
}

Tile KernelRun::math(MathOp op, const Tile& a, const Tile& b) {
  Command& command = issue_next();
  command.operands = {a, b, {}};
  return submit_math(command, pe_.services().memory.math(op, a->value, b->value),
                     math_work(name_of(op), op, a->element_count, size_of(a->dtype)));
}

Tile KernelRun::math(MathOp op, DType dtype, std::int64_t element_count,
                     std::span<const MathOperand> operands) {
  PeServices& services = pe_.services();
  Command& command = issue_next();
  std::array<Value, kMostOperands> values;
  Bytes widest = size_of(dtype);
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const auto& [tile, number] = operands[i];
    command.operands[i] = tile;
    if (tile) widest = std::max(widest, size_of(tile->dtype));
    values[i] = tile ? tile->value : services.memory.constant(dtype, element_count, number);
  }
  const Value value = services.memory.math(op, dtype, std::span(values).first(operands.size()));
  return submit_math(command, value, math_work(name_of(op), op, element_count, widest));
}

Tile KernelRun::along_axis(AxisOp op, const Tile& tile, const AxisForm& form) {
  PeServices& services = pe_.services();
  Command& command = issue_next();
  command.operands[0] = tile;
  work::Math math = math_work(name_of(op), op, form, size_of(tile->dtype));
  math.passes = count_passes(op);
  return submit_math(command, services.memory.along_axis(op, tile->value, form), math);
}

Tile KernelRun::ramp(DType dtype, std::int64_t start, std::int64_t element_count) {
  PeServices& services = pe_.services();
  Command& command = issue_next();
  const AxisForm form{1, element_count, 1};
  return submit_math(command, services.memory.ramp(dtype, start, element_count),
                     math_work(name_of(AxisOp::ramp), AxisOp::ramp, form, size_of(dtype)));
}

Tile KernelRun::submit_math(Command& command, const Value& value, work::Math math) {
  const Tile result = pe_.services().tiles.make(value.dtype(), value.element_count(), &account());
  result->value = value;
  command.result = result;
  math.elements = value.element_count();
  command.work = math;
  submit(command);
  return result;
}

Tile KernelRun::gemm(const GemmSize& size, const Tile& a, const Tile& b, const Tile& accumulator,
                     DType dtype) {
  PeServices& services = pe_.services();
  Bytes* const scratch = &account();
  const std::int64_t count = size.m * size.n;
  Command& command = issue_next();
  const Tile result = accumulator
                          ? services.tiles.make_in_place_of(accumulator, dtype, count, scratch)
                          : services.tiles.make(dtype, count, scratch);
  result->value = services.memory.gemm(size, a->value, b->value,
                                       accumulator ? accumulator->value : Value{}, dtype);
  command.work = work::Gemm{size, accumulator ? accumulator->bytes : 0};
  command.operands = {a, b, accumulator};
  command.result = result;
  submit(command);
  return result;
}

std::optional<GemmSize> KernelRun::choose_tile(const CompositePlan& plan, const GemmSize& wanted,
                                               Bytes scratch) {
  PeServices& services = pe_.services();
  // PEs that share tiles choose alike, as if each were the first one of the SIP.
  const bool shares = plan.a.is_shared() || plan.b.is_shared();
  const PeLocation pe = shares ? PeLocation{pe_.location().sip, 0, 0} : pe_.location();
  const PeLocation home = plan.a.is_shared() ? pe : plan.a.buffer.home;
  const WaysOfTiles ways =
      find_ways_of_tiles(services.topology, services.fabric, home, pe, operation_.sharers);
  return services.tile_choices.choose(plan, wanted, services.topology.pe, ways, scratch);
}

void KernelRun::composite(CompositePlan plan) {
  PeServices& services = pe_.services();
  // Mostly a product is its kernel's only command, and then nothing is under way to wait for.
  if (!accesses_.empty() || !composites_.empty()) {
    for_each_memory_use(plan, [&](const MemoryUse& use) { find_hazards(use); });
  }

  Command& command = issue_next();
  const Tile done = make_signal();
  // The working set is reserved at once, because a composite that waited for scratch half-way could
  // hold it up for ever.
  Tile scratch = services.tiles.make_scratch(working_set(plan), &account());
  composites_.push_back(std::make_unique<Composite>(pe_.scheduler(), command, std::move(plan),
                                                    std::move(scratch), id_, waits_));
  Composite& composite = *composites_.back();
  command.work = work::Composite{&composite.plan(), Engine::call<&Composite::start>(&composite)};
  command.result = done;
  submit(command);
}

template <class Kind>
void KernelRun::issue_send(IpcqChannel& channel, std::uint32_t number, const Tile& tile) {
  // Sends count up and receives down: the balance at the end finds messages that nobody has
  // received.
  ++balance_.of(channel.ends().in_one_sip());
  Command& command = issue_next();
  command.operands[0] = tile;
  // The send waits for the departure of the queue's previous send: a queue's sends depart in order.
  if (Command* const before = std::exchange(channel.last_send(), &command)) {
    before->next_send = &command;
    ++command.missing_operands;
  }
  command.bytes = tile->bytes;
  command.work = Kind{{{&channel, pe_.services().next_arrow++}, number, operation_}};
  submit(command);
}

void KernelRun::send(IpcqChannel& channel, const Tile& tile) {
  issue_send<work::Send>(channel, channel.take_credit(clock()), tile);
}

void KernelRun::copy_to(IpcqChannel& channel, const Tile& tile) {
  issue_send<work::CopyTo>(channel, channel.take_post(), tile);
}

KernelRun::PostedReceive KernelRun::post_receive(IpcqChannel& channel, DType dtype,
                                                 std::int64_t count) {
  spend(pe_.services().topology.pe.cpu_issue);
  ++open_receives_;
  const Tile tile = pe_.services().tiles.make(dtype, count, &account());
  receive_scratch_ += tile->bytes;
  return {&channel, channel.post(*this, tile, cpu_clock_, cause_of_clock()), tile};
}

std::optional<IpcqMessage> KernelRun::close_receive(const PostedReceive& receive) {
  IpcqPost& post = find_post(receive);
  const bool was_refused = post.state == IpcqPost::State::refused;
  KB_CHECK(was_refused || post.state == IpcqPost::State::arrived, "the message has not come");
  std::optional<IpcqMessage> refused;
  if (was_refused) refused = *post.refused;
  wait_until(post.seen, post.cause);
  receive.channel->close_post(receive.number);
  --open_receives_;
  receive_scratch_ -= receive.tile->bytes;
  return refused;
}

void KernelRun::withdraw_receives() {
  if (open_receives_ == 0) return;
  for (IpcqChannel* channel : pe_.ipcq().ins()) {
    if (channel->open_post_count(*this) > 0) channel->withdraw_posts();
  }
  open_receives_ = 0;
  receive_scratch_ = 0;
}

Tile KernelRun::slice(const Tile& whole, std::int64_t begin, std::int64_t count) {
  PeServices& services = pe_.services();
  const Tile view = services.tiles.make_view(whole->dtype, count, std::span(&whole, 1));
  view->value = services.memory.slice(whole->value, begin, count);
  return view;
}

Tile KernelRun::concat(std::span<const Tile> parts) {
  PeServices& services = pe_.services();
  std::vector<Value> values;
  std::int64_t count = 0;
  for (const Tile& part : parts) {
    values.push_back(part->value);
    count += part->element_count;
  }
  const Tile view = services.tiles.make_view(parts.front()->dtype, count, parts);
  view->value = services.memory.concat(values);
  return view;
}

Tile KernelRun::broadcast(const Tile& tile, const AxisForm& form) {
  PeServices& services = pe_.services();
  const Tile view =
      services.tiles.make_view(tile->dtype, form.count_with_axis(), std::span(&tile, 1));
  view->value = services.memory.along_axis(AxisOp::broadcast, tile->value, form);
  return view;
}

// A tile without a value: only its readiness counts.
Tile KernelRun::make_signal() {
  return pe_.services().tiles.make(DType::f32, 0, &account());
}

// Waiting.

Time KernelRun::clock() {
  const Engine& engine = pe_.services().engine;
  const CauseLog* const causes = engine.causes();
  wait_until(engine.now(), causes == nullptr ? CauseLog::Id{} : causes->current());
  return cpu_clock_;
}

void KernelRun::wake_at_clock() {
  Engine& engine = pe_.services().engine;
  KB_CHECK(cpu_clock_ > engine.now(), "the PE_CPU is not ahead");
  engine.schedule_after(cause_of_clock(), cpu_clock_ - engine.now(), wake_);
}

void KernelRun::wake_when_outstanding(int count) {
  KB_CHECK(count < outstanding_, "{} commands are under way", outstanding_);
  wake_at_outstanding_ = count;
}

void KernelRun::wake_at_next_end() {
  KB_CHECK(outstanding_ > 0, "no command is under way");
  wake_at_next_end_ = true;
}

void KernelRun::accepted(const IpcqMessage& message, bool in_one_sip, bool in_slot) {
  // A message of another operation does not count here, or it would hide one of this operation's
  // that is missing.
  if (message.operation == operation_) --balance_.of(in_one_sip);
  if (in_slot) ++outstanding_;
}

void KernelRun::completed(const Command& command) {
  if (const auto* load = std::get_if<work::Load>(&command.work)) {
    traffic_.loaded += load->is_shared ? load->from_hbm : command.bytes;
    pe_.services().memory_order.forget(accesses_, false, load->noted);
    for (const work::ChosenBlock& block : load->blocks) {
      pe_.services().memory_order.forget(accesses_, false, block.noted);
    }
  } else if (const auto* store = std::get_if<work::Store>(&command.work)) {
    traffic_.stored += command.bytes;
    pe_.services().memory_order.forget(accesses_, true, store->noted);
  } else if (const auto* composite = std::get_if<work::Composite>(&command.work)) {
    end(*composite, command.started);
  } else if (const auto* gemm = std::get_if<work::Gemm>(&command.work)) {
    traffic_.operations += 2 * gemm->size.m * gemm->size.n * gemm->size.k;
  } else if (const auto* math = std::get_if<work::Math>(&command.work)) {
    traffic_.operations += math->elements;
  }
  --outstanding_;
  pe_.scratch_may_be_free();
  // A kernel that waits for room is woken once for many ends, since each wake-up costs a switch of
  // fibers.
  if (outstanding_ > wake_at_outstanding_ && !wake_at_next_end_) return;
  wake_at_outstanding_ = -1;
  wake_at_next_end_ = false;
  wake_.function(wake_.object, wake_.argument);
}

void KernelRun::end(const work::Composite& composite, Time started) {
  composite_window_.add(started, pe_.services().engine.now());
  const auto ended = std::ranges::find_if(
      composites_, [&](const auto& other) { return &other->plan() == composite.plan; });
  traffic_.loaded += unshared_bytes(*composite.plan) + (*ended)->shared_from_hbm();
  traffic_.stored += stored_bytes(*composite.plan);
  const GemmSize& size = composite.plan->size;
  traffic_.operations += 2 * size.m * size.n * size.k;
  if (const std::vector<AccessIndex::Id>& noted = (*ended)->noted(); !noted.empty()) {
    auto id = noted.begin();
    for_each_memory_use(*composite.plan, [&](const MemoryUse& use) {
      pe_.services().memory_order.forget(accesses_, use.writes, *id++);
    });
  }
  composites_.erase(ended);
}

}  // namespace kernbench::sim
