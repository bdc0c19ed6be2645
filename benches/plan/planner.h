// Orders plans by their steps, of which it runs as few with all layers as are wanted (ADR-0225).

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "benches/bench/bench.h"
#include "benches/bench/row.h"
#include "benches/plan/candidates.h"
#include "benches/plan/known_runs.h"

namespace kernbench::benches::plan {

// A plan with more events in a run with all layers is not run so: two minutes of a host.
inline constexpr double kMostEvents = 2e8;

inline constexpr std::size_t kShown = 10;  // plans in the table

class Planner {
 public:
  // REQUIRES: there is a plan; the question outlives it
  Planner(Bench& bench, const Question& question, std::vector<Plan> plans)
      : question_(question), plans_(std::move(plans)), runs_(bench) {}

  // The plans with their figures, those that fit first, the fastest of them first.  Throws
  // UsageError KB-U012 if none fits, and says by how much the smallest one misses.
  const std::vector<Plan>& run();

 private:
  // The places of the runs that a step is composed of.
  struct LayersRun {
    std::int64_t layers = 0;
    std::size_t place = 0;
  };
  struct StageRuns {
    std::vector<std::vector<LayersRun>> kinds;  // of kinds_of_stages()
    std::size_t message = 0;
  };
  void time_all();
  std::vector<Plan*> choose_next();
  bool waits(const Plan& plan) const;
  std::string find_needless(const Plan& plan, double enough) const;
  const Plan* find(const Place& place) const;
  double step_of_last_shown() const;
  void time_by_layers(const std::vector<Plan*>& wanted, const std::string& sweep_name);
  void time_by_lines(const std::vector<Plan*>& wanted, const std::string& sweep_name);
  void time_by_stages(const std::vector<Plan*>& wanted, const std::string& sweep_name);
  StageRuns want_stages(const ddp::StepInput& input);
  void take_stages(const StageRuns& runs, Plan& plan) const;
  void take_lines(const Row& few, const Row& more, Plan& plan) const;
  bool measure_best();
  bool reopen(const Place& place);
  void measure(const std::vector<Plan*>& wanted, const std::string& sweep_name);
  void take(const Row& row, Plan& plan) const;
  void refuse_too_large(Plan& plan) const;
  void check_one_fits() const;
  void sort();

  const Question& question_;
  std::vector<Plan> plans_;
  KnownRuns runs_;
  int layer_rounds_ = 0;
  int full_rounds_ = 0;
};

// Returns a row with the columns that name a plan, to which figures are added.
Row plan_row(std::string_view table, const ddp::StepInput& input);

}  // namespace kernbench::benches::plan
