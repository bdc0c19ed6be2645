#include "benches/calibration/least_squares.h"

#include <Eigen/Dense>
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>

namespace kernbench::benches::calibration {

namespace {

constexpr double kFirstDamping = 1e-3;
constexpr double kLeastDamping = 1e-9;
constexpr double kMostDamping = 1e7;
constexpr double kLess = 0.1;
constexpr double kMore = 8;
constexpr double kSettled = 1e-5;    // of the sum, by which a last step is better
constexpr double kExactMean = 1e-7;  // residuals below it are nothing
constexpr int kMostDoublings = 30;   // of a step that is too small to lead to another point

enum class Descent : std::uint8_t { moved, settled, stuck };

double sum_of_squares(const Numbers& numbers) {
  return std::inner_product(numbers.begin(), numbers.end(), numbers.begin(), 0.0);
}

class Minimizer {
 public:
  explicit Minimizer(const LeastSquares& problem) : problem_(problem) {}

  LeastSquaresFit run(const Numbers& start);

 private:
  std::size_t count() const { return problem_.low.size(); }
  Numbers inside(Numbers point) const;
  Numbers residuals_at(const Numbers& point) const;
  Numbers beside(std::size_t parameter, double sign) const;
  void differentiate(double sign);
  void hold_at_bounds();
  Numbers propose() const;
  Descent descend();
  bool is_exact() const;

  const LeastSquares& problem_;
  LeastSquaresFit fit_;
  Eigen::MatrixXd square_;  // J' J
  Eigen::VectorXd slope_;   // J' r
  double damping_ = kFirstDamping;
  bool has_jacobian_ = false;  // the fit's, where it is, to the usual side
};

Numbers Minimizer::inside(Numbers point) const {
  for (std::size_t i = 0; i < count(); ++i) {
    point[i] = std::clamp(point[i], problem_.low[i], problem_.high[i]);
  }
  return problem_.snap ? problem_.snap(point) : point;
}

Numbers Minimizer::residuals_at(const Numbers& point) const {
  return problem_.residuals(std::span(&point, 1)).front();
}

// A point that differs in one parameter; to the other side if the bound is near on this one.
Numbers Minimizer::beside(std::size_t parameter, double sign) const {
  const double here = fit_.at[parameter];
  double step = sign * problem_.steps[parameter];
  const double room = sign > 0 ? problem_.high[parameter] - here : here - problem_.low[parameter];
  if (room < problem_.steps[parameter]) step = -step;
  Numbers point = fit_.at;
  for (int i = 0; i < kMostDoublings && point[parameter] == here; ++i, step *= 2) {
    point[parameter] = here + step;
    point = inside(std::move(point));
  }
  return point;
}

void Minimizer::differentiate(double sign) {
  std::vector<Numbers> points;
  for (std::size_t j = 0; j < count(); ++j) points.push_back(beside(j, sign));
  const std::vector<Numbers> residuals = problem_.residuals(points);
  fit_.jacobian.assign(fit_.residuals.size(), Numbers(count(), 0));
  for (std::size_t j = 0; j < count(); ++j) {
    const double step = points[j][j] - fit_.at[j];
    for (std::size_t i = 0; i < fit_.residuals.size() && step != 0; ++i) {
      fit_.jacobian[i][j] = (residuals[j][i] - fit_.residuals[i]) / step;
    }
  }
  has_jacobian_ = sign > 0;
  hold_at_bounds();
}

void Minimizer::hold_at_bounds() {
  const auto columns = static_cast<Eigen::Index>(count());
  square_ = Eigen::MatrixXd::Zero(columns, columns);
  slope_ = Eigen::VectorXd::Zero(columns);
  for (std::size_t i = 0; i < fit_.residuals.size(); ++i) {
    const Eigen::Map<const Eigen::VectorXd> row(fit_.jacobian[i].data(), columns);
    square_ += row * row.transpose();
    slope_ += row * fit_.residuals[i];
  }
  fit_.is_held.assign(count(), false);
  for (std::size_t j = 0; j < count(); ++j) {
    const double slope = slope_[static_cast<Eigen::Index>(j)];
    fit_.is_held[j] = (fit_.at[j] <= problem_.low[j] && slope > 0) ||
                      (fit_.at[j] >= problem_.high[j] && slope < 0);
  }
}

// The damped Gauss-Newton step within the bounds.  Parameters that leave them are set to the bound
// one after the other, and move no more.
Numbers Minimizer::propose() const {
  const auto columns = static_cast<Eigen::Index>(count());
  Eigen::VectorXd step = Eigen::VectorXd::Zero(columns);
  std::vector<bool> is_fixed = fit_.is_held;
  for (std::size_t round = 0; round <= count(); ++round) {
    Eigen::MatrixXd left = square_;
    Eigen::VectorXd right = -slope_;
    for (Eigen::Index j = 0; j < columns; ++j) {
      const double scale = square_(j, j);
      left(j, j) += damping_ * scale;
      if (!is_fixed[static_cast<std::size_t>(j)] && scale > 0) continue;
      left.row(j).setZero();
      left(j, j) = 1;
      right[j] = step[j];
    }
    step = left.partialPivLu().solve(right);
    bool is_inside = true;
    for (std::size_t j = 0; j < count(); ++j) {
      const auto index = static_cast<Eigen::Index>(j);
      const double to = std::clamp(fit_.at[j] + step[index], problem_.low[j], problem_.high[j]);
      if (is_fixed[j] || to == fit_.at[j] + step[index]) continue;
      step[index] = to - fit_.at[j];
      is_fixed[j] = true;
      is_inside = false;
    }
    if (is_inside) break;
  }
  Numbers point = fit_.at;
  for (std::size_t j = 0; j < count(); ++j) point[j] += step[static_cast<Eigen::Index>(j)];
  return inside(std::move(point));
}

bool Minimizer::is_exact() const {
  return fit_.sum() <= kExactMean * kExactMean * static_cast<double>(fit_.residuals.size());
}

Descent Minimizer::descend() {
  for (; damping_ <= kMostDamping; damping_ *= kMore) {
    Numbers point = propose();
    if (point == fit_.at) return Descent::stuck;
    Numbers residuals = residuals_at(point);
    const double before = fit_.sum();
    const double after = sum_of_squares(residuals);
    if (!(after < before)) continue;
    fit_.at = std::move(point);
    fit_.residuals = std::move(residuals);
    has_jacobian_ = false;
    damping_ = std::max(kLeastDamping, damping_ * kLess);
    return is_exact() || before - after <= kSettled * before ? Descent::settled : Descent::moved;
  }
  return Descent::stuck;
}

LeastSquaresFit Minimizer::run(const Numbers& start) {
  fit_.at = inside(start);
  fit_.residuals = residuals_at(fit_.at);
  fit_.has_converged = count() == 0;
  for (int step = 0; step < problem_.most_steps && !fit_.has_converged; ++step) {
    differentiate(1);
    if (is_exact()) {
      fit_.has_converged = true;
      break;
    }
    Descent descent = descend();
    if (descent == Descent::stuck) {
      damping_ = kFirstDamping;
      differentiate(-1);
      descent = descend();
      damping_ = std::min(damping_, kFirstDamping);
    }
    fit_.has_converged = descent != Descent::moved;
  }
  if (problem_.wants_jacobian && !has_jacobian_) differentiate(1);
  return std::move(fit_);
}

}  // namespace

double LeastSquaresFit::sum() const {
  return sum_of_squares(residuals);
}

LeastSquaresFit minimize(const LeastSquares& problem, const Numbers& start) {
  return Minimizer(problem).run(start);
}

}  // namespace kernbench::benches::calibration
