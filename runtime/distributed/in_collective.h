// The collective that a rank is in, for reports, logs and the flight recorder.

#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/distributed/backend.h"
#include "runtime/distributed/fingerprint.h"
#include "runtime/distributed/group.h"
#include "runtime/simulation/simulation.h"

namespace kernbench::distributed {

// "all_reduce#3 ([10] Half SUM) at ddp.cpp:41, of group 2"
inline std::string describe_in(int group, const CollectiveFingerprint& fingerprint,
                               std::uint64_t sequence) {
  const std::string text = describe(fingerprint, sequence);
  return group == 0 ? text : fmt::format("{}, of group {}", text, group);
}

// The object behind FiberLocal::collective, from which reports make their text.
struct CurrentCollective {
  const CollectiveFingerprint& fingerprint;
  const Group& group;
  std::uint64_t sequence;

  static std::string text(const void* object) {
    const auto& current = *static_cast<const CurrentCollective*>(object);
    return describe_in(current.group.number, current.fingerprint, current.sequence);
  }
  static std::vector<int> missing_ranks(const void* object) {
    const auto& current = *static_cast<const CurrentCollective*>(object);
    return current.group.ledger.missing(current.sequence);
  }
};

// Lets reports show which collective a rank is in, for as long as this object lives.
class InCollective {
 public:
  InCollective(runtime::Simulation& simulation, const Group& group,
               const CollectiveFingerprint& fingerprint, std::uint64_t sequence,
               runtime::FlightRecorder::Id flight)
      : simulation_(simulation),
        local_(simulation.local()),
        current_{fingerprint, group, sequence},
        flight_(flight) {
    local_.collective = {&current_, &CurrentCollective::text, &CurrentCollective::missing_ranks};
  }
  ~InCollective() { local_.collective = {}; }
  InCollective(const InCollective&) = delete;
  InCollective& operator=(const InCollective&) = delete;

  // The collective has started and takes time on the rank's device.
  void started_on_device() {
    on_device_.emplace(simulation_.activity(), local_.device);
    started();
  }
  void started() {
    simulation_.flight_recorder().start(local_.rank, flight_, simulation_.now());
    log("started");
  }
  void runs_by(const Communicator::RunsBy& by) {
    if (by.algorithm.empty()) return;
    simulation_.note_algorithm({current_.fingerprint.function, by.algorithm, by.is_configured});
    simulation_.flight_recorder().runs_by(local_.rank, flight_, by.algorithm);
  }
  void completed() {
    simulation_.flight_recorder().complete(local_.rank, flight_, simulation_.now());
    log("completed");
  }

 private:
  void log(std::string_view what) {
    simulation_.log(runtime::LogTopic::distributed,
                    [&] { return fmt::format("{} {}", CurrentCollective::text(&current_), what); });
  }

  runtime::Simulation& simulation_;
  runtime::FiberLocal& local_;
  const CurrentCollective current_;
  const runtime::FlightRecorder::Id flight_;
  std::optional<runtime::CollectiveUnderWay> on_device_;
};

}  // namespace kernbench::distributed
