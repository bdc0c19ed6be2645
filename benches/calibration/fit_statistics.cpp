#include "benches/calibration/fit_statistics.h"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "sim_engine/base/check.h"

namespace kernbench::benches::calibration {

namespace {

constexpr double kProbability = 0.95;
constexpr double kLeastEigenvalue = 1e-12;  // of a matrix with a diagonal of ones

// The probability that |T| is at most sqrt(degrees) * tan(angle): finite sums (Abramowitz and
// Stegun, 26.7.3 and 26.7.4).
double t_probability(double angle, int degrees) {
  const double cosine = std::cos(angle);
  const double sine = std::sin(angle);
  const bool is_odd = degrees % 2 == 1;
  double term = is_odd ? cosine : 1;
  double sum = 0;
  for (int i = is_odd ? 3 : 2; i <= degrees; i += 2) {
    sum += term;
    term *= cosine * cosine * (i - 1) / i;
  }
  return is_odd ? 2 / std::numbers::pi * (angle + sine * sum) : sine * sum;
}

// The parameters that the linear model speaks of.
std::vector<std::size_t> list_free(const LeastSquaresFit& fit) {
  std::vector<std::size_t> free;
  for (std::size_t j = 0; j < fit.at.size(); ++j) {
    const bool moves =
        std::ranges::any_of(fit.jacobian, [&](const Numbers& row) { return row[j] != 0; });
    if (!fit.is_held[j] && moves) free.push_back(j);
  }
  return free;
}

Eigen::MatrixXd free_columns(const LeastSquaresFit& fit, const std::vector<std::size_t>& free) {
  Eigen::MatrixXd matrix(fit.jacobian.size(), free.size());
  for (std::size_t i = 0; i < fit.jacobian.size(); ++i) {
    for (std::size_t j = 0; j < free.size(); ++j) {
      matrix(static_cast<Eigen::Index>(i), static_cast<Eigen::Index>(j)) = fit.jacobian[i][free[j]];
    }
  }
  return matrix;
}

// (J' J)^-1 of columns of length 1.  Where they depend on each other it is large, not infinite.
Eigen::MatrixXd inverse_square(const Eigen::MatrixXd& columns) {
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver(columns.transpose() * columns);
  const Eigen::VectorXd inverses = solver.eigenvalues().cwiseMax(kLeastEigenvalue).cwiseInverse();
  return solver.eigenvectors() * inverses.asDiagonal() * solver.eigenvectors().transpose();
}

}  // namespace

double t_quantile(double probability, int degrees) {
  KB_CHECK(degrees >= 1, "{} degrees of freedom", degrees);
  double low = 0;
  double high = std::numbers::pi / 2;
  for (int i = 0; i < 200; ++i) {
    const double middle = (low + high) / 2;
    (t_probability(middle, degrees) < probability ? low : high) = middle;
  }
  return std::sqrt(static_cast<double>(degrees)) * std::tan(low);
}

Estimates estimate(const LeastSquaresFit& fit, int degrees) {
  const std::size_t count = fit.at.size();
  Estimates estimates{Numbers(count, std::numeric_limits<double>::infinity()),
                      std::vector<Numbers>(count, Numbers(count, 0))};
  for (std::size_t j = 0; j < count; ++j) {
    if (fit.is_held[j]) estimates.half_widths[j] = 0;
  }
  const std::vector<std::size_t> free = list_free(fit);
  if (free.empty()) return estimates;
  Eigen::MatrixXd columns = free_columns(fit, free);
  const Eigen::VectorXd lengths = columns.colwise().norm();
  columns = columns * lengths.cwiseInverse().asDiagonal();
  const Eigen::MatrixXd inverse = inverse_square(columns);
  const double deviation = std::sqrt(fit.sum() / degrees);
  const double t = t_quantile(kProbability, degrees);
  for (std::size_t a = 0; a < free.size(); ++a) {
    const auto row = static_cast<Eigen::Index>(a);
    estimates.half_widths[free[a]] = t * deviation * std::sqrt(inverse(row, row)) / lengths[row];
    for (std::size_t b = 0; b < free.size(); ++b) {
      const auto column = static_cast<Eigen::Index>(b);
      estimates.correlations[free[a]][free[b]] =
          inverse(row, column) / std::sqrt(inverse(row, row) * inverse(column, column));
    }
  }
  return estimates;
}

std::optional<Numbers> fit_without(const LeastSquaresFit& fit, std::size_t residual) {
  const std::vector<std::size_t> free = list_free(fit);
  Numbers at = fit.at;
  if (free.empty()) return at;
  Eigen::MatrixXd columns = free_columns(fit, free);
  Eigen::VectorXd residuals =
      Eigen::Map<const Eigen::VectorXd>(fit.residuals.data(), columns.rows());
  const Eigen::VectorXd lengths = columns.colwise().norm();
  columns = columns * lengths.cwiseInverse().asDiagonal();
  columns.row(static_cast<Eigen::Index>(residual)).setZero();
  residuals[static_cast<Eigen::Index>(residual)] = 0;
  const Eigen::ColPivHouseholderQR<Eigen::MatrixXd> solver(columns);
  if (solver.rank() < columns.cols()) return std::nullopt;
  const Eigen::VectorXd step = solver.solve(-residuals);
  for (std::size_t a = 0; a < free.size(); ++a) {
    const auto index = static_cast<Eigen::Index>(a);
    at[free[a]] += step[index] / lengths[index];
  }
  return at;
}

}  // namespace kernbench::benches::calibration
