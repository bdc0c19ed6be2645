#include "runtime/pipelining/action_times.h"

#include <functional>
#include <utility>

#include "runtime/simulation/run_log.h"
#include "runtime/simulation/simulation.h"
#include "runtime/stream/rank_streams.h"
#include "runtime/torch/internals.h"
#include "runtime/torch/runtime_context.h"

namespace kernbench::distributed::pipelining {

namespace {

// Calls note(now) when the device has done what the caller has launched.
void when_done(RuntimeContext& torch, std::function<void(Time now)> note) {
  runtime::Simulation& simulation = simulation_of(torch);
  if (!simulation.queues_launches()) return note(simulation.now());
  runtime::current_stream(simulation, torch.ahbm.current_device())
      .enqueue("an instant of a step",
               [&simulation, note = std::move(note)] { note(simulation.now()); });
}

}  // namespace

void ActionTimes::begin(RuntimeContext& torch, const Action& action) {
  runtime::Simulation& simulation = simulation_of(torch);
  times_->push_back({.action = action});
  const auto note = [times = times_, index = times_->size() - 1](Time now) {
    (*times)[index].begin = now;
  };
  runtime::RunLog* const log = simulation.run_log();
  if (log == nullptr) return when_done(torch, note);
  span_ = log->add({.kind = runtime::RunSpan::Kind::action,
                    .rank = simulation.local().rank,
                    .device = torch.ahbm.current_device(),
                    .name = to_string(action),
                    .issued = simulation.now(),
                    .start = simulation.now()});
  when_done(torch, [note, log, span = *span_](Time now) {
    note(now);
    log->at(span).start = now;
  });
}

void ActionTimes::end(RuntimeContext& torch) {
  const auto note = [times = times_, index = times_->size() - 1](Time now) {
    (*times)[index].end = now;
  };
  runtime::RunLog* const log = simulation_of(torch).run_log();
  if (log == nullptr || !span_) return when_done(torch, note);
  when_done(torch, [note, log, span = *std::exchange(span_, std::nullopt)](Time now) {
    note(now);
    log->at(span).end = now;
  });
}

}  // namespace kernbench::distributed::pipelining
