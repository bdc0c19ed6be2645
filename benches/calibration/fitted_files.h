// The files of fitted machines: what was given, with the fitted values put in.

#pragma once

#include <string>
#include <vector>

#include "benches/calibration/fit.h"

namespace kernbench::benches::calibration {

struct FittedFile {
  std::string name;  // "h100_8.yaml", "ccl.yaml"
  std::string text;
};

// A topology file for each machine, in their order, and ccl.yaml, or "NAME.ccl.yaml" for each if
// they do not have the same.  They have the values that --set
// gives, too, so that without it they simulate the rows as the fit has.
std::vector<FittedFile> fitted_files(const Calibration& calibration,
                                     const std::vector<Parameter>& parameters, const Fit& fit);

}  // namespace kernbench::benches::calibration
