#include "runtime/stream/stream.h"

#include <fmt/format.h>

#include <utility>

#include "runtime/stream/rank_streams.h"
#include "sim_engine/base/error.h"

namespace kernbench::ahbm {

using runtime::Simulation;
using runtime::StreamQueue;

struct Event::State {
  std::shared_ptr<Simulation> simulation;
  bool has_timing = false;
  std::optional<Time> recorded = std::nullopt;                  // by the host
  std::shared_ptr<StreamQueue> queue = nullptr;                 // null: nothing was queued there
  std::shared_ptr<runtime::Marker> marker = nullptr;            // likewise
  std::optional<runtime::StreamPosition> place = std::nullopt;  // likewise
  runtime::Looks looks = {};

  bool is_reached() const { return marker == nullptr || marker->is_known(); }
};

int Stream::device_index() const {
  return queue_->device();
}

void Stream::wait_stream(const Stream& other) const {
  wait_event(other.record_event());
}

void Stream::wait_event(const Event& event) const {
  const Event::State& state = *event.state_;
  if (state.marker == nullptr) return;
  queue_->follow(fmt::format("an Event of {}", state.queue->description()), state.marker,
                 state.place->upto());
}

void Stream::record_event(const Event& event) const {
  event.record(*this);
}

Event Stream::record_event() const {
  const Event event(simulation_);
  event.record(*this);
  return event;
}

void Stream::make_current() const {
  runtime::set_current_stream(*simulation_, queue_);
}

void Stream::synchronize() const {
  runtime::synchronize(*simulation_, *queue_);
}

bool Stream::query() const {
  // A busy stream is asked through an Event, so that a program that polls lets simulated time pass.
  return queue_->is_idle() || record_event().query();
}

Event::Event(std::shared_ptr<Simulation> simulation, const EventOptions& options)
    : state_(std::make_shared<State>(
          State{.simulation = std::move(simulation), .has_timing = options.enable_timing})) {}

void Event::record() const {
  Simulation& simulation = *state_->simulation;
  record(
      {state_->simulation, runtime::shared_current_stream(simulation, simulation.local().device)});
}

void Event::record(const Stream& stream) const {
  State& state = *state_;
  state.recorded = state.simulation->now();
  // Without queues every launch has ended when the host goes on, so the moment of the record is all
  // there is.
  if (!state.simulation->queues_launches()) return;
  state.queue = stream.queue_;
  state.marker = state.queue->enqueue("an Event", [] {});
  state.place = state.queue->position();
}

void Event::wait() const {
  Simulation& simulation = *state_->simulation;
  wait({state_->simulation, runtime::shared_current_stream(simulation, simulation.local().device)});
}

void Event::wait(const Stream& stream) const {
  stream.wait_event(*this);
}

bool Event::query() const {
  State& state = *state_;
  const auto is_reached = [&] { return state.is_reached(); };
  if (!is_reached()) {
    state.looks.look(*state.simulation, is_reached,
                     [&] { return fmt::format("an Event of {}", state.queue->description()); });
  }
  return is_reached();
}

void Event::synchronize() const {
  State& state = *state_;
  if (state.marker == nullptr) return;
  state.marker->wait_until_known(
      *state.simulation, [&] { return fmt::format("an Event of {}", state.queue->description()); });
  runtime::host_knows(*state.simulation, state.place->upto());
  runtime::throw_queued_failure(*state.simulation);
}

namespace {

[[noreturn]] void refuse_elapsed(std::string_view what) {
  throw CollectiveError("KB-R019", "elapsed_time: Both events must be {}", what);
}

}  // namespace

Time Event::reached() const {
  const State& state = *state_;
  if (!state.has_timing) refuse_elapsed("created with argument 'enable_timing=True'.");
  if (!state.recorded) refuse_elapsed("recorded before calculating elapsed time.");
  if (!state.is_reached()) refuse_elapsed("completed before calculating elapsed time.");
  return state.marker == nullptr ? *state.recorded : state.marker->at();
}

double Event::elapsed_time(const Event& end) const {
  const Time begin = reached();
  return to_ns(end.reached() - begin) / 1e6;
}

StreamContext::StreamContext(const Stream& stream)
    : simulation_(stream.simulation_),
      previous_(runtime::shared_current_stream(*simulation_, stream.device_index())),
      previous_device_(std::exchange(simulation_->local().device, stream.device_index())) {
  runtime::set_current_stream(*simulation_, stream.queue_);
}

StreamContext::~StreamContext() {
  runtime::set_current_stream(*simulation_, previous_);
  simulation_->local().device = previous_device_;
}

}  // namespace kernbench::ahbm
