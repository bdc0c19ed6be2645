#include "runtime/distributed/call_record.h"

#include <fmt/format.h>

#include "runtime/simulation/simulation.h"

namespace kernbench::distributed {

CallRecord::CallRecord(runtime::Simulation& simulation, const runtime::FlightEvent& event,
                       Describe describe)
    : simulation_(&simulation), event_(event), rank_(simulation.local().rank) {
  event_.issued = simulation.now();
  id_ = simulation.flight_recorder().issue(rank_, event_);
  simulation.local().last_call.set(event_.function.data(), event_.location.file_name(),
                                   event_.location.line(), event_.sequence);
  log(describe, "issued");
}

void CallRecord::started(Describe describe) const {
  simulation_->flight_recorder().start(rank_, id_, simulation_->now());
  log(describe, "started");
}

void CallRecord::runs_by(const Communicator::RunsBy& by) const {
  if (by.algorithm.empty()) return;
  simulation_->note_algorithm({.collective = event_.function,
                               .algorithm = by.algorithm,
                               .is_configured = by.is_configured});
  simulation_->flight_recorder().runs_by(rank_, id_, by.algorithm);
}

void CallRecord::completed(Describe describe) const {
  simulation_->flight_recorder().complete(rank_, id_, simulation_->now());
  log(describe, "completed");
}

void CallRecord::log(Describe describe, std::string_view what) const {
  if (!describe) return;
  simulation_->log(runtime::LogTopic::distributed,
                   [&] { return fmt::format("{} {}", describe(), what); });
}

}  // namespace kernbench::distributed
