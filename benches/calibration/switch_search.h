// Searches the value of a switch: a size, such as the `up_to` of a rule, at which times jump.

#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "benches/calibration/parameters.h"
#include "benches/calibration/row_times.h"

namespace kernbench::benches::calibration {

// The values that may differ for the rows, ascending: of a size such as `up_to` one between each
// two of the rows' sizes, and the bounds; of other whole numbers all, or some in equal ratios.
std::vector<double> list_candidates(const Calibration& calibration, const Parameter& parameter);

struct SwitchSearch {
  std::vector<std::string> texts;        // of the candidates that can be simulated
  std::vector<std::vector<Time>> times;  // of all rows, by candidate
  std::vector<std::string> refusals;     // "3: <why>" of the others

  // True if the row does not take the same time at all candidates.
  bool moves(std::size_t row) const;
};

// The times of all rows for each candidate, with the other parameters as they are.  Rows that take
// equal times at two candidates are taken to do so between them.
SwitchSearch search_switch(RowTimes& times, const Calibration& calibration,
                           const std::vector<Parameter>& parameters, std::size_t parameter,
                           const Texts& at);

}  // namespace kernbench::benches::calibration
