// The statistics of a fit by least squares, by the model that is linear at its end.

#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "benches/calibration/least_squares.h"

namespace kernbench::benches::calibration {

// t such that Student's T of so many degrees of freedom is within +-t with this probability.
// REQUIRES: degrees >= 1, 0 < probability < 1
double t_quantile(double probability, int degrees);

struct Estimates {
  // Half of the intervals that have 95 % of the probability; infinite of a parameter that moves
  // nothing, and 0 of one that is held at its bound.
  Numbers half_widths;
  std::vector<Numbers> correlations;  // of the parameters that are not held; else 0
};

// The covariance is s^2 (J' J)^-1, in which s^2 is the sum of squares over the degrees of freedom.
// REQUIRES: degrees >= 1
Estimates estimate(const LeastSquaresFit& fit, int degrees);

// The parameters without one of the residuals: one Gauss-Newton step from the end of the fit.
// nullopt if the others do not determine them.
std::optional<Numbers> fit_without(const LeastSquaresFit& fit, std::size_t residual);

}  // namespace kernbench::benches::calibration
