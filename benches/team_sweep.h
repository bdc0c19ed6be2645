// A sweep whose points several processes simulate: the leader's side and the others'.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "benches/point_outcome.h"
#include "benches/process_team.h"

namespace kernbench::benches {

// What both sides must agree on.
struct TeamSweep {
  std::string name;
  std::uint64_t inputs = 0;  // Bench::inputs_hash()
};

// Hands out points.  Points are numbers here; what they are, its owner knows.
class SweepLeader {
 public:
  struct Points {
    std::function<std::optional<std::size_t>()> take;  // the next one to simulate
    std::function<void(std::size_t point, PointOutcome outcome)> finish;
    std::function<void(std::size_t point)> give_back;  // to be simulated in this process
    std::function<void(int process, const std::string& reason)> lost;
  };

  // REQUIRES: team.leads()
  SweepLeader(ProcessTeam& team, TeamSweep sweep, Points points);

  // Answers whoever has said something.  Throws ConfigError KB-B002 if a process simulates
  // something else under the same name.
  void poll();

  // Points that other processes have, and who.
  const std::map<std::size_t, int>& given() const { return given_; }

  // The sweep is complete: so that the other processes have its results too.
  void end(std::span<const std::pair<std::size_t, const PointOutcome*>> outcomes);

 private:
  void take_in(const TeamMessage& message);
  void enter(const TeamMessage& message);
  void lose(const TeamMessage& message);
  void hand_out();

  ProcessTeam& team_;
  const TeamSweep sweep_;
  const Points points_;
  std::map<int, std::uint64_t> idle_;  // how many points a process could take
  std::map<std::size_t, int> given_;
};

// Simulates what the leader hands out, on `jobs` threads, until the sweep is complete.
class SweepMember {
 public:
  struct Points {
    // On another thread.  Nothing if it has failed.
    std::function<std::optional<PointOutcome>(std::size_t point)> simulate;
    // Of every point that has an outcome, when the sweep is complete; from this thread.
    std::function<void(std::size_t point, PointOutcome outcome)> finish;
    std::function<bool()> is_interrupted;
    std::function<void()> interrupt;  // what is being simulated is not wanted any more
  };

  // REQUIRES: !team.leads()
  SweepMember(ProcessTeam& team, TeamSweep sweep, Points points);

  // Throws Dismissed if the leader gives up.
  void serve(std::size_t jobs);

 private:
  ProcessTeam& team_;
  const TeamSweep sweep_;
  const Points points_;
};

}  // namespace kernbench::benches
