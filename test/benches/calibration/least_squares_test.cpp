// Least squares within bounds, on models with closed forms.

#include "benches/calibration/least_squares.h"

#include <catch2/catch.hpp>
#include <cmath>

namespace kernbench::test::least_squares_test {
namespace {

using benches::calibration::LeastSquares;
using benches::calibration::LeastSquaresFit;
using benches::calibration::minimize;
using benches::calibration::Numbers;

// Residuals of one point as those of several.
template <class Function>
auto each(const Function& residuals_of) {
  return [residuals_of](std::span<const Numbers> points) {
    std::vector<Numbers> all;
    for (const Numbers& point : points) all.push_back(residuals_of(point));
    return all;
  };
}

// a + b x less 1, 3, 4, 4 at x = 0, 1, 2, 3: best are a = 1.5 and b = 1, with a sum of 1.
LeastSquares line(Numbers low, Numbers high) {
  return {.low = std::move(low),
          .high = std::move(high),
          .steps = {0.01, 0.01},
          .residuals = each([](const Numbers& at) {
            const Numbers y = {1, 3, 4, 4};
            Numbers residuals;
            for (std::size_t i = 0; i < y.size(); ++i) {
              residuals.push_back(at[0] + at[1] * static_cast<double>(i) - y[i]);
            }
            return residuals;
          })};
}

TEST_CASE("a straight line is fitted exactly", "[calibration]") {
  const LeastSquaresFit fit = minimize(line({-10, -10}, {10, 10}), {-7, 8});
  CHECK(fit.has_converged);
  CHECK(fit.at[0] == Approx(1.5).epsilon(1e-6));
  CHECK(fit.at[1] == Approx(1).epsilon(1e-6));
  CHECK(fit.sum() == Approx(1).epsilon(1e-9));
  CHECK(fit.is_held == std::vector<bool>{false, false});
  CHECK(fit.jacobian[3][1] == Approx(3));
}

TEST_CASE("a parameter that wants out of its bounds ends exactly there", "[calibration]") {
  // With a = 1 the best b is sum x (y - 1) / sum x^2 = 17 / 14.
  const LeastSquaresFit fit = minimize(line({-10, -10}, {1, 10}), {-7, 8});
  CHECK(fit.has_converged);
  CHECK(fit.at[0] == 1);
  CHECK(fit.at[1] == Approx(17.0 / 14).epsilon(1e-6));
  CHECK(fit.is_held == std::vector<bool>{true, false});
}

TEST_CASE("a start out of the bounds begins at the bound", "[calibration]") {
  CHECK(minimize(line({0, 0}, {10, 10}), {-7, 80}).at[1] == Approx(1).epsilon(1e-6));
}

// The best of a start and a rate: t = s + n / r, in logarithms, as of a collective.
TEST_CASE("a start and a rate are found again from their times", "[calibration]") {
  const LeastSquares problem{
      .low = {std::log(0.1), std::log(0.1)},
      .high = {std::log(100), std::log(1000)},
      .steps = {0.01, 0.01},
      .residuals = each([](const Numbers& at) {
        Numbers residuals;
        for (double n = 1; n < 1e4; n *= 4) {
          residuals.push_back(std::log((std::exp(at[0]) + n / std::exp(at[1])) / (5 + n / 12.5)));
        }
        return residuals;
      })};
  for (const Numbers& start : {Numbers{-2, 6}, Numbers{4, -2}, Numbers{0, 0}}) {
    const LeastSquaresFit fit = minimize(problem, start);
    CHECK(fit.has_converged);
    CHECK(std::exp(fit.at[0]) == Approx(5).epsilon(1e-5));
    CHECK(std::exp(fit.at[1]) == Approx(12.5).epsilon(1e-5));
  }
}

TEST_CASE("Rosenbrock's valley is followed to its end", "[calibration]") {
  const LeastSquares problem{.low = {-5, -5},
                             .high = {5, 5},
                             .steps = {1e-6, 1e-6},
                             .residuals = each([](const Numbers& at) {
                               return Numbers{10 * (at[1] - at[0] * at[0]), 1 - at[0]};
                             })};
  const LeastSquaresFit fit = minimize(problem, {-1.2, 1});
  CHECK(fit.has_converged);
  CHECK(fit.at[0] == Approx(1).epsilon(1e-4));
  CHECK(fit.at[1] == Approx(1).epsilon(1e-4));
}

TEST_CASE("a parameter that moves nothing stays", "[calibration]") {
  const LeastSquares problem{.low = {-5, -5},
                             .high = {5, 5},
                             .steps = {0.01, 0.01},
                             .residuals = each([](const Numbers& at) {
                               return Numbers{at[0] - 2, at[0] - 3};
                             })};
  const LeastSquaresFit fit = minimize(problem, {0, 4});
  CHECK(fit.at[0] == Approx(2.5).epsilon(1e-6));
  CHECK(fit.at[1] == 4);
}

// Values in steps of 0.25: a difference of 0.01 would lead to the same point.
TEST_CASE("parameters that have steps are changed by at least one", "[calibration]") {
  LeastSquares problem = line({-10, -10}, {10, 10});
  problem.snap = [](Numbers point) {
    for (double& value : point) value = std::round(4 * value) / 4;
    return point;
  };
  const LeastSquaresFit fit = minimize(problem, {-7, 8});
  CHECK(fit.has_converged);
  CHECK(fit.at == Numbers{1.5, 1});
  CHECK(fit.jacobian[3][1] == Approx(3));
}

TEST_CASE("a fit over a kink ends in it", "[calibration]") {
  // max(a, 1) less 1, and a less 2: the best is between the branches' ends, at a = 1.5; a less 0
  // besides makes it 1, where the first residual has its kink.
  const LeastSquares problem{.low = {-5},
                             .high = {5},
                             .steps = {0.01},
                             .residuals = each([](const Numbers& at) {
                               return Numbers{4 * (std::max(at[0], 1.0) - 1), at[0] - 1.1};
                             })};
  const LeastSquaresFit fit = minimize(problem, {-3});
  CHECK(fit.has_converged);
  CHECK(fit.at[0] == Approx(1 + 0.1 / 17).epsilon(1e-4));
}

TEST_CASE("a fit that its steps do not suffice for is told", "[calibration]") {
  LeastSquares problem = line({-10, -10}, {10, 10});
  problem.residuals = each([](const Numbers& at) { return Numbers{std::exp(at[0]), at[1] / 10}; });
  problem.most_steps = 2;
  CHECK_FALSE(minimize(problem, {9, 9}).has_converged);
}

TEST_CASE("a fit without parameters has the residuals of its model", "[calibration]") {
  const LeastSquares problem{
      .low = {}, .high = {}, .steps = {}, .residuals = each([](const Numbers&) {
                                            return Numbers{3, 4};
                                          })};
  const LeastSquaresFit fit = minimize(problem, {});
  CHECK(fit.has_converged);
  CHECK(fit.sum() == 25);
}

}  // namespace
}  // namespace kernbench::test::least_squares_test
