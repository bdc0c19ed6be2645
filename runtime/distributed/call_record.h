// Tells the recorders about a call of torch.distributed: the flight recorder, the log, the rank's
// last call and the list of algorithms used.  Every call is issued, started and completed here,
// whatever it is.

#pragma once

#include <cstdint>
#include <string>

#include "runtime/distributed/backend.h"
#include "runtime/fiber/function_ref.h"
#include "runtime/guards/flight_recorder.h"
#include "runtime/simulation/run_log.h"

namespace kernbench::runtime {
class Simulation;
}

namespace kernbench::distributed {

class CallRecord {
 public:
  // Describes the call for the log: "all_reduce#0 ([10] Half SUM) at ddp.cpp:41".
  using Describe = runtime::FunctionRef<std::string()>;

  CallRecord() = default;
  // The current rank issues the call.
  CallRecord(runtime::Simulation& simulation, const runtime::FlightEvent& event, Describe describe);

  const runtime::FlightEvent& event() const { return event_; }
  int rank() const { return rank_; }  // global

  // Nothing is logged if the description is empty.
  void started(Describe describe = {}) const;
  void runs_by(const Communicator::RunsBy& by) const;
  // The number of the message, equal on both sides.
  void is_flow(std::uint64_t number) const;
  // Nothing of it is under way any more.
  void ended() const;
  // The caller may know of it, which may be later.
  void completed(Describe describe = {}) const;

 private:
  void log(Describe describe, std::string_view what) const;
  runtime::RunSpan* span() const;  // null: the run is not profiled

  runtime::Simulation* simulation_ = nullptr;
  runtime::FlightEvent event_ = {};
  int rank_ = 0;
  runtime::FlightRecorder::Id id_ = 0;
  runtime::RunLog::Id span_ = runtime::RunLog::kNone;
};

}  // namespace kernbench::distributed
