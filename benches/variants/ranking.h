// Who is fastest over runs with values drawn from ranges, and of which range that depends
// (ADR-0200).

#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "benches/variants/uncertain_runs.h"

namespace kernbench::benches::variants {

// A threshold in one range: on one side of it the winner wins, on the other side it does not.
struct Split {
  std::size_t range = 0;
  bool wins_below = true;
  double below = 0;  // the values of the runs beside the threshold, in the range's unit
  double above = 0;
  std::size_t agreeing = 0;  // runs for which that is so
};

// What rows are compared that differ in one column.
struct Contest {
  Row row = {};           // the cells by which the rows are known, without that column
  std::string name = {};  // "n_elem 4096"
  std::vector<std::pair<std::string, std::size_t>> wins = {};  // of candidates, the most first
  std::size_t tie_count = 0;        // runs in which no candidate is faster than all others
  std::size_t run_count = 0;        // in which all candidates have a time
  std::optional<Split> split = {};  // the best one, unless the winner wins, or loses, all runs

  // True if the split is to be believed: at most a tenth of the runs disagree and a quarter of
  // those that it has to explain, and chance would find such a one in less than 5 of 100 cases.
  bool is_decided(std::size_t range_count) const;
};

// The contests of the texts in the column `by`.  A contest has at least two candidates.
std::vector<Contest> rank(std::span<const Band> bands, const Samples& samples,
                          const std::string& by);

// A line for each contest: "ring_allreduce wins in 31 of 50: iff sip_link.latency < 420 ns (...)".
std::string to_text(std::span<const Contest> contests, const Samples& samples,
                    const std::string& by);
// A row for each contest.
std::vector<Row> to_rows(std::span<const Contest> contests, const Samples& samples,
                         const std::string& by);

}  // namespace kernbench::benches::variants
