#include "runtime/stream/stream_queue.h"

#include <fmt/format.h>

#include <utility>

#include "sim_engine/base/error.h"
#include "sim_engine/components/launcher.h"

namespace kernbench::runtime {

StreamQueue::StreamQueue(Simulation& simulation, int device, std::shared_ptr<StreamSlot> slot,
                         const std::shared_ptr<StreamHost>& host)
    : simulation_(simulation),
      device_(device),
      slot_(std::move(slot)),
      owner_(simulation),
      host_(host),
      description_(fmt::format("stream {} of device {}", slot_->stream(), device)) {
  local_.kind = FiberLocal::Kind::work;
  local_.rank = simulation.local().rank;
  local_.device = device;
  local_.is_on_device = true;
}

StreamPosition StreamQueue::position() const {
  StreamPosition position{slot_, slot_->last(), before_};
  if (const auto host = host_.lock()) position.before.add(host->knows());
  return position;
}

bool StreamQueue::is_settled() {
  forget_abandoned_run();
  return is_idle() && failure_ == nullptr;
}

bool StreamQueue::is_idle() const {
  // After an abandoned run the last marker is never passed, so nobody may wait for it.
  return last_ == nullptr || last_->is_known() || abandoned_runs_ != simulation_.abandoned_runs();
}

std::string StreamQueue::describe_next() const {
  const Operation* next = performed_;
  if (next == nullptr && !waiting_.empty()) next = &waiting_.front();
  return next == nullptr ? description_ : fmt::format("{} on {}", next->what, description_);
}

std::exception_ptr StreamQueue::take_failure() {
  forget_abandoned_run();
  return std::exchange(failure_, nullptr);
}

// Nothing of a run that was abandoned ends any more.
void StreamQueue::forget_abandoned_run() {
  if (std::exchange(abandoned_runs_, simulation_.abandoned_runs()) == abandoned_runs_) return;
  last_ = nullptr;
  failure_ = nullptr;
}

std::shared_ptr<Marker> StreamQueue::enqueue(std::string what, std::function<void()> body) {
  forget_abandoned_run();
  wait_for_room();
  if (const auto host = host_.lock()) {
    before_.add(host->knows());  // once for all positions that follow
    if (!std::exchange(is_noted_, true)) host->note(shared_from_this());
  }
  slot_->add_operation();
  last_ = std::make_shared<Marker>();
  const Time arrives = simulation_.now() + simulation_.machine().launcher().host_leg(device_);
  waiting_.push_back({std::move(what), arrives, std::move(body), last_});
  // A fiber serves the queue while it has operations.  An idle stream has none, so that many
  // streams cost little.
  if (!std::exchange(is_running_, true)) {
    simulation_.fibers().spawn(
        FiberName(write_name), [this] { run(); }, &local_,
        [self = shared_from_this()](Fiber&, const FiberResult&) {
          self->waiting_.clear();  // it is not empty only if the run is over
          self->performed_ = nullptr;
          self->is_running_ = false;
        });
  }
  return last_;
}

void StreamQueue::wait_for_room() {
  // The host waits for room as it does with CUDA's launch queue, so that a program cannot queue
  // without end.
  while (waiting_.size() >= kMostQueued) {
    const auto first = waiting_.front().marker;
    first->wait(simulation_, [&] { return describe_next(); });
  }
}

void StreamQueue::follow(std::string what, std::shared_ptr<Marker> marker,
                         const StreamClock& before) {
  // Races are searched by these clocks, in the order of issue and not of time, so the clock
  // advances before anything has run.
  before_.add(before);
  const auto body = [this, what, marker = std::move(marker)] {
    marker->wait(simulation_, [&] { return what; });
    if (marker->failure() != nullptr) std::rethrow_exception(marker->failure());
  };
  enqueue(what, body);
}

void StreamQueue::run() {
  while (!waiting_.empty()) {
    Operation operation = std::move(waiting_.front());
    waiting_.pop_front();
    performed_ = &operation;
    perform(operation);
    performed_ = nullptr;
    // The body's tensors live until the host knows of the end, since their memory counts as in use
    // until then.
    operation.marker->when_known([body = std::move(operation.body)] {});
    Marker::pass(operation.marker, simulation_, simulation_.machine().launcher().host_leg(device_),
                 failure_);
  }
}

void StreamQueue::perform(Operation& operation) {
  // Nothing behind a failure runs, but its markers are passed on, so that whoever waits gets the
  // failure.
  if (failure_ != nullptr) return;
  try {
    simulation_.sleep(operation.arrives - simulation_.now(), [&] { return operation.what; });
    operation.body();
  } catch (const Cancelled&) {
    throw;
  } catch (...) {
    failure_ = std::current_exception();
  }
}

}  // namespace kernbench::runtime
