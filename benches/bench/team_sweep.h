// A sweep whose points are simulated by several processes: the leader's side and the members' side.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "benches/bench/point_outcome.h"
#include "benches/bench/point_workers.h"
#include "benches/bench/process_team.h"

namespace kernbench::benches {

// The identity of a sweep, on which both sides must agree.
struct TeamSweep {
  std::string name;
  std::uint64_t inputs = 0;  // BenchRun::inputs_hash()
};

// Hands out points, by number; only its owner knows what a number stands for.
class SweepLeader {
 public:
  struct Points {
    std::function<std::optional<std::size_t>()> take;  // the next one to simulate
    std::function<void(std::size_t point, PointEnd end)> end;
    std::function<void(std::size_t point)> give_back;  // its process has left
    std::function<void(int process, const std::string& reason)> lost;
  };

  // REQUIRES: team.leads()
  SweepLeader(ProcessTeam& team, TeamSweep sweep, Points points);

  // Answers all messages that have come.  Throws ConfigError KB-B002 if a process has a sweep of
  // the same name with other inputs.
  void poll();

  // The points that other processes are simulating, and the process of each.
  const std::map<std::size_t, int>& given() const { return given_; }

  // The sweep is complete: sends the results to the other processes.
  void end(std::span<const std::pair<std::size_t, const PointOutcome*>> outcomes);

 private:
  void take_in(const TeamMessage& message);
  void enter(const TeamMessage& message);
  void lose(const TeamMessage& message);
  void hand_out();

  ProcessTeam& team_;
  const TeamSweep sweep_;
  const Points points_;
  std::map<int, std::uint64_t> idle_;  // by process: how many points it could take
  std::map<std::size_t, int> given_;
};

// Simulates what the leader hands out until the sweep is complete.
class SweepMember {
 public:
  struct Points {
    PointCalls simulated;  // here; their `end` is not called
    // Called for every point that has an outcome, when the sweep is complete.
    std::function<void(std::size_t point, PointOutcome outcome)> finish;
    std::function<bool()> is_interrupted;
  };

  // REQUIRES: !team.leads()
  SweepMember(ProcessTeam& team, TeamSweep sweep, Points points);

  // Throws Dismissed if the leader gives up.
  void serve(const PointWorkers::Limits& limits);

 private:
  ProcessTeam& team_;
  const TeamSweep sweep_;
  const Points points_;
};

}  // namespace kernbench::benches
