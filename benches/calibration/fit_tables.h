// The tables that a calibration prints, and the rows of its report.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "benches/bench/console.h"
#include "benches/bench/row.h"
#include "benches/calibration/fit.h"

namespace kernbench::benches::calibration {

// The row of a report: published, simulated as given and fitted, error, and when it was left out.
Row make_row(const Calibration& calibration, const CalibratedRow& row, const RowFit& fit,
             const std::optional<std::string>& algorithm);

Row make_row(const Parameter& parameter, const ParameterFit& fit);

// The rows of each machine, in order.
std::string rows_table(const Calibration& calibration, const std::vector<Row>& rows,
                       const Console& console);
// Mean, median and worst of the errors' magnitudes, by machine and collective.
std::string summary_table(const Calibration& calibration, const Fit& fit);
std::string parameter_table(const std::vector<Parameter>& parameters, const Fit& fit);

}  // namespace kernbench::benches::calibration
