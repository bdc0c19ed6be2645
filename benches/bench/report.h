// The results of a bench, for machines.

#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "benches/bench/row.h"
#include "benches/bench/settings.h"
#include "runtime/profiler/energy.h"
#include "sim_engine/base/units.h"
#include "sim_engine/components/use_and_waits.h"
#include "sim_engine/faults/fault.h"

namespace kernbench::benches {

// A collective that ran, and the algorithm that ran it.
struct AlgorithmRun {
  std::string collective;
  std::string algorithm;
  bool is_configured = false;  // named by ccl.yaml or --set algorithm=

  friend auto operator<=>(const AlgorithmRun&, const AlgorithmRun&) = default;
};

// Sums over all systems that a bench simulated.
struct EngineStatistics {
  Time simulated{0};
  Time timed{0};  // the parts of it that the bench has timed; all of it if it has timed none
  std::uint64_t events = 0;
  double wall_s = 0;
  std::uint64_t fingerprint = 0;  // of the only system, else a hash of all in order
  sim::UnitUse busiest = {};      // of the (first) system whose kernels ran longest
  std::size_t system_count = 1;
  int ranks_of_each = 1;  // the most that one rank stands for (RuntimeOptions::fold)
  bool are_nearly_alike = false;  // one system has ranks that are (RuntimeOptions::folds_nearly)
  std::string unlike = {};  // why ranks that were to be nearly alike were simulated rank by rank
  std::vector<AlgorithmRun> algorithms = {};  // without duplicates, sorted
  // The numbers of the rules of ccl.yaml that have decided, sorted (Config::number_of_rule()).
  std::vector<int> rules = {};
  std::vector<FaultEffect> faults = {};  // what each fault has done
  runtime::EnergyUse energy = {};        // of what is timed; not counted unless it was asked for

  double events_per_s() const;
};

struct Report {
  std::string bench;
  bool ok = true;
  std::string topology = {};
  int world_size = 1;
  std::uint64_t seed = 0;
  std::vector<Assignment> set = {};  // by --set, what does not vary
  std::optional<std::uint64_t> shuffle_ties = {};
  std::vector<Row> rows = {};
  std::vector<std::string> artifacts = {};
  EngineStatistics engine = {};
};

std::string to_json(const Report& report);

// kernbench's own version: "0.1.0".
std::string_view version();

}  // namespace kernbench::benches
