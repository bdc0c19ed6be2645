// Nonlinear least squares within bounds, of residuals that have no derivatives in closed form.

#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

namespace kernbench::benches::calibration {

using Numbers = std::vector<double>;

struct LeastSquares {
  Numbers low;  // bounds of the parameters
  Numbers high;
  Numbers steps;  // by which they are changed for a derivative
  // The residuals at each of the points: at several, so that a program can compute them at once.
  std::function<std::vector<Numbers>(std::span<const Numbers> points)> residuals;
  // The nearest point that there is, for parameters that have steps; null: every point is one.
  std::function<Numbers(const Numbers& point)> snap = {};
  int most_steps = 60;
  bool wants_jacobian = true;  // at the end, where it may have to be computed once more
};

struct LeastSquaresFit {
  Numbers at;
  Numbers residuals;
  std::vector<Numbers> jacobian;  // by residual, then by parameter
  std::vector<bool> is_held;      // at a bound beyond which the sum of squares falls
  bool has_converged = false;     // false: the steps were used up

  double sum() const;  // of the squares
};

// Levenberg-Marquardt's method with differences for derivatives.  A parameter that a step would
// take out of its bounds is set to the bound, and the others' step is computed with it there; at a
// bound it stays as long as the sum falls outwards.  So a fit can end exactly at a bound, and be
// told so; with a coordinate that stretches the bounds to infinity (a logit) it would creep there,
// and derivatives near a bound would vanish.
//
// The model may have kinks: where no step is better, derivatives to the other side are tried.
LeastSquaresFit minimize(const LeastSquares& problem, const Numbers& start);

}  // namespace kernbench::benches::calibration
