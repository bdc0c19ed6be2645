#include "runtime/stream/stream.h"

#include <fmt/format.h>

#include <utility>

#include "runtime/stream/rank_streams.h"
#include "sim_engine/base/error.h"

namespace kernbench::ahbm {

using runtime::Simulation;
using runtime::StreamQueue;

namespace {

[[noreturn]] void refuse_empty(std::string_view call, std::string_view what) {
  throw CollectiveError("KB-R020", "{}: {} was moved from; use what it was moved to", call, what);
}

}  // namespace

struct Event::State {
  std::shared_ptr<Simulation> simulation;
  runtime::Owner owner;
  bool has_timing = false;
  std::optional<Time> recorded = std::nullopt;                  // by the host
  std::shared_ptr<StreamQueue> queue = nullptr;                 // null: nothing was queued there
  std::shared_ptr<runtime::Marker> marker = nullptr;            // likewise
  std::optional<runtime::StreamPosition> place = std::nullopt;  // likewise
  runtime::Looks looks = {};

  bool is_reached() const { return marker == nullptr || marker->is_known(); }
  std::string describe() const {
    return queue == nullptr ? "an Event" : fmt::format("an Event of {}", queue->description());
  }
};

StreamQueue& Stream::checked(std::string_view call) const {
  if (queue_ == nullptr) refuse_empty(call, "a Stream");
  queue_->owner().check_is_caller(*simulation_, call, [&] { return queue_->description(); });
  return *queue_;
}

void Stream::check_belongs_to(const Simulation& simulation, std::string_view call) const {
  if (queue_ == nullptr) refuse_empty(call, "a Stream");
  runtime::check_same_context(*simulation_, simulation, call,
                              [&] { return queue_->description(); });
}

Event::State& Event::checked(std::string_view call) const {
  if (state_ == nullptr) refuse_empty(call, "an Event");
  state_->owner.check_is_caller(*state_->simulation, call, [&] { return state_->describe(); });
  return *state_;
}

int Stream::device_index() const {
  return queue_->device();
}

void Stream::wait_stream(const Stream& other) const {
  const StreamQueue& own = checked("Stream.wait_stream");
  other.checked("Stream.wait_stream");
  runtime::check_same_context(
      *other.simulation_, *simulation_, "Stream.wait_stream",
      [&] { return other.queue_->description(); }, [&] { return own.description(); });
  wait_event(other.record_event());
}

void Stream::wait_event(const Event& event) const {
  StreamQueue& own = checked("Stream.wait_event");
  const Event::State& state = event.checked("Stream.wait_event");
  runtime::check_same_context(
      *state.simulation, *simulation_, "Stream.wait_event", [&] { return state.describe(); },
      [&] { return own.description(); });
  if (state.marker == nullptr) return;
  own.follow(state.describe(), state.marker, state.place->upto());
}

void Stream::record_event(const Event& event) const {
  event.record(*this);
}

Event Stream::record_event() const {
  checked("Stream.record_event");
  const Event event(simulation_);
  event.record(*this);
  return event;
}

void Stream::make_current() const {
  checked("torch.ahbm.set_stream");
  runtime::set_current_stream(*simulation_, queue_);
}

void Stream::synchronize() const {
  runtime::synchronize(*simulation_, checked("Stream.synchronize"));
}

bool Stream::query() const {
  // A busy stream is asked through an Event, so that a program that polls lets simulated time pass.
  return checked("Stream.query").is_idle() || record_event().query();
}

Event::Event(std::shared_ptr<Simulation> simulation, const EventOptions& options) {
  runtime::check_outside_kernels(*simulation, "torch.ahbm.Event");
  const runtime::Owner owner(*simulation);
  state_ = std::make_shared<State>(State{
      .simulation = std::move(simulation), .owner = owner, .has_timing = options.enable_timing});
}

void Event::record() const {
  Simulation& simulation = *checked("Event.record").simulation;
  record(
      {state_->simulation, runtime::shared_current_stream(simulation, simulation.local().device)});
}

void Event::record(const Stream& stream) const {
  State& state = checked("Event.record");
  stream.checked("Event.record");
  runtime::check_same_context(
      *stream.simulation_, *state.simulation, "Event.record",
      [&] { return stream.queue_->description(); }, [&] { return state.describe(); });
  state.recorded = state.simulation->now();
  // Without queues every launch has ended when the host goes on, so the moment of the record is all
  // there is.
  if (!state.simulation->queues_launches()) return;
  state.queue = stream.queue_;
  state.marker = state.queue->enqueue("an Event", [] {});
  state.place = state.queue->position();
}

void Event::wait() const {
  Simulation& simulation = *checked("Event.wait").simulation;
  wait({state_->simulation, runtime::shared_current_stream(simulation, simulation.local().device)});
}

void Event::wait(const Stream& stream) const {
  stream.wait_event(*this);
}

bool Event::query() const {
  State& state = checked("Event.query");
  const auto is_reached = [&] { return state.is_reached(); };
  if (!is_reached()) {
    state.looks.look(*state.simulation, is_reached, [&] { return state.describe(); });
  }
  return is_reached();
}

void Event::synchronize() const {
  State& state = checked("Event.synchronize");
  if (state.marker == nullptr) return;
  state.marker->wait_until_known(*state.simulation, [&] { return state.describe(); });
  runtime::host_knows(*state.simulation, state.place->upto());
  runtime::throw_queued_failure(*state.simulation);
}

namespace {

[[noreturn]] void refuse_elapsed(std::string_view what) {
  throw CollectiveError("KB-R019", "elapsed_time: Both events must be {}", what);
}

}  // namespace

Time Event::reached() const {
  const State& state = checked("Event.elapsed_time");
  if (!state.has_timing) refuse_elapsed("created with argument 'enable_timing=True'.");
  if (!state.recorded) refuse_elapsed("recorded before calculating elapsed time.");
  if (!state.is_reached()) refuse_elapsed("completed before calculating elapsed time.");
  return state.marker == nullptr ? *state.recorded : state.marker->at();
}

double Event::elapsed_time(const Event& end) const {
  const Time begin = reached();
  const Time reached_end = end.reached();
  runtime::check_same_context(
      *end.state_->simulation, *state_->simulation, "Event.elapsed_time",
      [&] { return end.state_->describe(); }, [&] { return state_->describe(); });
  return to_ns(reached_end - begin) / 1e6;
}

StreamContext::StreamContext(const Stream& stream) : simulation_(stream.simulation_) {
  stream.checked("torch.ahbm.stream");
  scope_ = runtime::enter_scope(*simulation_, stream.queue_);
}

StreamContext::~StreamContext() {
  runtime::leave_scope(*simulation_, scope_);
}

}  // namespace kernbench::ahbm
