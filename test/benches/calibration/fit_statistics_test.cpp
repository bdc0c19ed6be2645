// The statistics of a fit are compared with figures computed by hand.

#include "benches/calibration/fit_statistics.h"

#include <catch2/catch.hpp>
#include <cmath>

namespace kernbench::test::fit_statistics_test {
namespace {

using benches::calibration::estimate;
using benches::calibration::Estimates;
using benches::calibration::fit_without;
using benches::calibration::LeastSquaresFit;
using benches::calibration::Numbers;
using benches::calibration::t_quantile;

// Quantiles as tables of Student's distribution have them.
TEST_CASE("quantiles of t are those of tables", "[calibration]") {
  CHECK(t_quantile(0.95, 1) == Approx(12.7062).epsilon(1e-5));
  CHECK(t_quantile(0.95, 2) == Approx(4.30265).epsilon(1e-5));
  CHECK(t_quantile(0.95, 3) == Approx(3.18245).epsilon(1e-5));
  CHECK(t_quantile(0.95, 4) == Approx(2.77645).epsilon(1e-5));
  CHECK(t_quantile(0.95, 9) == Approx(2.26216).epsilon(1e-5));
  CHECK(t_quantile(0.95, 10) == Approx(2.22814).epsilon(1e-5));
  CHECK(t_quantile(0.99, 30) == Approx(2.75000).epsilon(1e-4));
  CHECK(t_quantile(0.95, 1000) == Approx(1.96234).epsilon(1e-5));
}

// a + b x through 1, 3, 4, 4 at x = 0, 1, 2, 3: a = 1.5, b = 1, residuals 0.5, -0.5, -0.5, 0.5.
LeastSquaresFit line() {
  return {.at = {1.5, 1},
          .residuals = {0.5, -0.5, -0.5, 0.5},
          .jacobian = {{1, 0}, {1, 1}, {1, 2}, {1, 3}},
          .is_held = {false, false},
          .has_converged = true};
}

// s^2 = 1 / 2; (J'J)^-1 = 1/20 (14, -6; -6, 4): variances 0.35 and 0.1, covariance -0.15.
TEST_CASE("intervals of a line are those of the closed form", "[calibration]") {
  const Estimates estimates = estimate(line(), 2);
  CHECK(estimates.half_widths[0] == Approx(4.30265 * std::sqrt(0.35)).epsilon(1e-5));
  CHECK(estimates.half_widths[1] == Approx(4.30265 * std::sqrt(0.1)).epsilon(1e-5));
  CHECK(estimates.correlations[0][1] == Approx(-0.15 / std::sqrt(0.035)).epsilon(1e-6));
  CHECK(estimates.correlations[1][1] == Approx(1));
}

TEST_CASE("intervals do not depend on the units of the parameters", "[calibration]") {
  LeastSquaresFit scaled = line();
  for (Numbers& row : scaled.jacobian) row[1] *= 1e-9;
  CHECK(estimate(scaled, 2).half_widths[1] == Approx(4.30265e9 * std::sqrt(0.1)).epsilon(1e-5));
}

TEST_CASE("what is held or moves nothing has no interval", "[calibration]") {
  LeastSquaresFit fit = line();
  fit.is_held = {true, false};
  const Estimates held = estimate(fit, 3);
  CHECK(held.half_widths[0] == 0);
  CHECK(held.correlations[0][1] == 0);
  CHECK(held.half_widths[1] == Approx(3.18245 * std::sqrt(1.0 / 3 / 14)).epsilon(1e-5));
  for (Numbers& row : fit.jacobian) row[1] = 0;
  CHECK(std::isinf(estimate(fit, 3).half_widths[1]));
}

TEST_CASE("parameters that act alike are correlated, and their intervals large", "[calibration]") {
  LeastSquaresFit fit = line();
  for (Numbers& row : fit.jacobian) row[1] = row[0];
  const Estimates estimates = estimate(fit, 2);
  CHECK(estimates.correlations[0][1] == Approx(-1).epsilon(1e-6));
  CHECK(estimates.half_widths[0] > 1e4);
}

// The best line through all points but one, by the closed form of a line.
Numbers line_without(std::size_t left_out) {
  const Numbers y = {1, 3, 4, 4};
  double n = 0;
  double sx = 0;
  double sy = 0;
  double sxx = 0;
  double sxy = 0;
  for (std::size_t i = 0; i < y.size(); ++i) {
    if (i == left_out) continue;
    const auto x = static_cast<double>(i);
    n += 1;
    sx += x;
    sy += y[i];
    sxx += x * x;
    sxy += x * y[i];
  }
  const double b = (n * sxy - sx * sy) / (n * sxx - sx * sx);
  return {(sy - b * sx) / n, b};
}

TEST_CASE("leaving a residual out is fitting without it, of a linear model", "[calibration]") {
  for (std::size_t i = 0; i < 4; ++i) {
    const Numbers at = fit_without(line(), i).value();
    CHECK(at[0] == Approx(line_without(i)[0]).epsilon(1e-9));
    CHECK(at[1] == Approx(line_without(i)[1]).epsilon(1e-9));
  }
}

TEST_CASE("a residual that alone determines a parameter cannot be left out", "[calibration]") {
  const LeastSquaresFit fit{.at = {2, 7},
                            .residuals = {0.5, -0.5, 0},
                            .jacobian = {{1, 0}, {1, 0}, {0, 1}},
                            .is_held = {false, false},
                            .has_converged = true};
  CHECK_FALSE(fit_without(fit, 2));
  CHECK(fit_without(fit, 0).value()[0] == Approx(2.5));
}

}  // namespace
}  // namespace kernbench::test::fit_statistics_test
