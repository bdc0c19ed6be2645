// Fits parameters of machines to published times: least squares of ln(simulated / published) over
// all rows of all machines at once.

#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "benches/bench/bench.h"
#include "benches/calibration/parameters.h"
#include "sim_engine/base/units.h"

namespace kernbench::benches::calibration {

struct RowFit {
  Time before{0};                  // with the values that are given
  std::optional<Time> after = {};  // with the fitted ones; nullopt: nothing is fitted
  // The time with the values that the other rows give; nullopt if they alone do not determine all
  // parameters.
  std::optional<Time> left_out = {};
};

struct ParameterFit {
  std::string text;  // its value as a file writes it
  double value = 0;  // in the range's unit
  // The interval of 95 %; nullopt of a switch, and of a parameter that is held at its bound.
  std::optional<double> low = {};
  std::optional<double> high = {};
  std::size_t moved_rows = 0;
  std::vector<std::string> faults = {};  // sentences on why its value says little
};

struct Fit {
  std::vector<RowFit> rows = {};
  std::vector<ParameterFit> parameters = {};
  bool has_converged = true;
  std::size_t simulated = 0;  // rows, for the fit
};

// The rows as the machines are given.
Fit compare_alone(Bench& bench, const Calibration& calibration);

// Continuous parameters and switches are fitted in turns: those by minimize(), these by a search
// over the sizes between the rows.  Throws UsageError KB-U022 for more parameters than half of the
// rows, and for a parameter that moves no row.
Fit fit(Bench& bench, const Calibration& calibration, const std::vector<Parameter>& parameters);

}  // namespace kernbench::benches::calibration
