// The runs that a planner's plans are timed by, each once for all plans that it is one of.

#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "benches/bench/bench.h"
#include "benches/bench/row.h"

namespace kernbench::benches::plan {

// Runs of equal names are the same run.
struct RunName {
  std::string text;         // of a point in the sweep
  std::string without_cap;  // the name but for the cap
  double cap = 0;
};

class KnownRuns {
 public:
  explicit KnownRuns(Bench& bench) : bench_(bench) {}

  // Returns the place of a run, which is run with the next run() unless it has been.  One with a
  // smaller cap is the same if its row says that larger caps make the same buckets, in a cell
  // `are_below_cap`.  `simulate` returns its row.
  std::size_t want(const RunName& name, Sweep::PointFunction simulate);
  // Runs those that are wanted and not known, as a sweep.
  void run(const std::string& sweep_name);
  // REQUIRES: run() has been called since want() gave the place
  const Row& row(std::size_t place) const { return rows_.at(place); }

 private:
  struct OfCap {
    double cap = 0;
    std::size_t place = 0;
  };
  struct Wanted {
    std::string text;
    Sweep::PointFunction simulate;
  };
  bool holds_for_larger_caps(std::size_t place) const;

  Bench& bench_;
  std::map<std::string, std::vector<OfCap>> places_;  // by the name without the cap
  std::vector<Row> rows_;
  std::vector<Wanted> wanted_;  // their places are behind those of the rows
};

}  // namespace kernbench::benches::plan
