#include "benches/calibration/fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "benches/bench/bench_run.h"
#include "benches/calibration/fit_progress.h"
#include "benches/calibration/fit_statistics.h"
#include "benches/calibration/least_squares.h"
#include "benches/calibration/row_times.h"
#include "benches/calibration/switch_search.h"
#include "sim_engine/base/error.h"

namespace kernbench::benches::calibration {

namespace {

constexpr double kStep = 0.01;      // of a coordinate, for a derivative
constexpr double kBetter = 1e-4;    // of the sum of squares, by which another switch is better
constexpr int kMostTurns = 20;      // of both kinds of parameters
constexpr int kMostTrialSteps = 5;  // beside another value of a switch
constexpr int kMostVerifications = 3;
constexpr double kNearlyCollinear = 0.98;

std::vector<std::size_t> list_parameters(const std::vector<Parameter>& parameters, bool switches) {
  std::vector<std::size_t> indices;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (parameters[i].is_switch() == switches) indices.push_back(i);
  }
  return indices;
}

class Fitter {
 public:
  Fitter(Bench& bench, const Calibration& calibration, const std::vector<Parameter>& parameters)
      : calibration_(calibration),
        parameters_(parameters),
        smooth_(list_parameters(parameters, false)),
        switches_(list_parameters(parameters, true)),
        times_(bench, calibration, parameters),
        told_(bench.run().request.shows_progress) {
    for (const Parameter& one : parameters) texts_.push_back(one.text_at(one.start));
  }

  Fit run();

 private:
  Numbers to_residuals(const std::vector<Time>& times) const;
  double to_sum(const std::vector<Time>& times) const;
  using Indices = std::vector<std::size_t>;  // of parameters
  Texts texts_with(const Indices& moved, const Numbers& point, const Texts& otherwise) const;
  Numbers point_of(const Indices& moved, const Texts& texts) const;
  LeastSquares make_problem(const Indices& moved, const Texts& at);
  Indices list_beside(const SwitchSearch& found) const;
  void check_smooth_move();
  void check_switches_move();
  void minimize_smooth();
  bool move_switches();
  bool move_switch_and_refit();
  bool try_switch(std::size_t parameter, const std::string& text, const Indices& beside);
  void search();
  Fit make_fit();
  std::size_t count_moved_by(const SwitchSearch& found) const;
  void add_estimates(Fit& fit);
  void judge(ParameterFit& fitted, const Parameter& parameter) const;
  void add_collinear(Fit& fit, const Estimates& estimates) const;
  void add_left_out(Fit& fit);
  std::optional<Texts> refitted_without(std::size_t row) const;

  const Calibration& calibration_;
  const std::vector<Parameter>& parameters_;
  const std::vector<std::size_t> smooth_;
  const std::vector<std::size_t> switches_;
  RowTimes times_;
  FitProgress told_;
  Texts texts_;
  LeastSquaresFit fit_;  // of the smooth parameters, with the switches as they are
};

Numbers Fitter::to_residuals(const std::vector<Time>& times) const {
  Numbers residuals;
  for (std::size_t row = 0; row < times.size(); ++row) {
    residuals.push_back(std::log(to_ns(times[row]) / to_ns(calibration_.rows[row].published.time)));
  }
  return residuals;
}

double Fitter::to_sum(const std::vector<Time>& times) const {
  double sum = 0;
  for (const double residual : to_residuals(times)) sum += residual * residual;
  return sum;
}

Texts Fitter::texts_with(const Indices& moved, const Numbers& point, const Texts& otherwise) const {
  Texts texts = otherwise;
  for (std::size_t i = 0; i < moved.size(); ++i) {
    const Parameter& parameter = parameters_[moved[i]];
    texts[moved[i]] = parameter.text_at(parameter.to_value(point[i]));
  }
  return texts;
}

Numbers Fitter::point_of(const Indices& moved, const Texts& texts) const {
  Numbers point;
  for (const std::size_t i : moved) {
    point.push_back(parameters_[i].to_coordinate(parameters_[i].value_of(texts[i])));
  }
  return point;
}

// The problem of these parameters, with the others as they are.
LeastSquares Fitter::make_problem(const Indices& moved, const Texts& at) {
  LeastSquares problem;
  for (const std::size_t i : moved) {
    problem.low.push_back(parameters_[i].to_coordinate(parameters_[i].range.low));
    problem.high.push_back(parameters_[i].to_coordinate(parameters_[i].range.high));
    problem.steps.push_back(kStep);
  }
  problem.residuals = [this, &moved, at](std::span<const Numbers> points) {
    std::vector<Texts> texts;
    for (const Numbers& point : points) texts.push_back(texts_with(moved, point, at));
    std::vector<Numbers> residuals;
    for (const std::vector<Time>& times : times_.at(texts))
      residuals.push_back(to_residuals(times));
    if (points.size() == 1) told_.tell(residuals.front(), times_.simulated());
    return residuals;
  };
  problem.snap = [this, &moved, at](const Numbers& point) {
    return point_of(moved, texts_with(moved, point, at));
  };
  return problem;
}

[[noreturn]] void refuse_idle(const Parameter& parameter,
                              const std::vector<std::string>& refusals = {}) {
  const std::string refused =
      refusals.empty() ? ""
                       : fmt::format("; {} values between cannot be simulated, such as {}",
                                     refusals.size(), refusals.front());
  throw UsageError("KB-U022",
                   "--fit {}: it moves no row: between {} and {} all times stay what they are; "
                   "leave it out, or give rows that depend on it{}",
                   parameter.name(), parameter.show(parameter.range.low),
                   parameter.show(parameter.range.high), refused);
}

// Refuses a parameter that moves no row from where the fit begins, neither a little nor to a bound.
void Fitter::check_smooth_move() {
  for (const std::size_t i : smooth_) {
    const Parameter& parameter = parameters_[i];
    const auto moves = [&](double value) {
      Texts texts = texts_;
      texts[i] = parameter.text_at(value);
      return times_.at(texts) != times_.at(texts_);
    };
    const double beside = parameter.to_value(parameter.to_coordinate(parameter.start) + kStep);
    if (moves(beside) || moves(parameter.range.low) || moves(parameter.range.high)) continue;
    refuse_idle(parameter);
  }
}

// The same of switches, once the others are fitted: before, what they choose between may be equal.
void Fitter::check_switches_move() {
  for (const std::size_t i : switches_) {
    const SwitchSearch found = search_switch(times_, calibration_, parameters_, i, texts_);
    if (count_moved_by(found) == 0) refuse_idle(parameters_[i], found.refusals);
  }
}

void Fitter::minimize_smooth() {
  fit_ = minimize(make_problem(smooth_, texts_), point_of(smooth_, texts_));
  texts_ = texts_with(smooth_, fit_.at, texts_);
}

// Sets each switch to its best value, with all other parameters as they are.
bool Fitter::move_switches() {
  bool has_moved = false;
  for (const std::size_t i : switches_) {
    const SwitchSearch found = search_switch(times_, calibration_, parameters_, i, texts_);
    double best = to_sum(times_.at(texts_));
    for (std::size_t candidate = 0; candidate < found.texts.size(); ++candidate) {
      const double sum = to_sum(found.times[candidate]);
      if (!(sum < best * (1 - kBetter))) continue;
      best = sum;
      texts_[i] = found.texts[candidate];
      has_moved = true;
    }
  }
  return has_moved;
}

// The smooth parameters that move a row which the switch moves.
Fitter::Indices Fitter::list_beside(const SwitchSearch& found) const {
  Indices beside;
  for (std::size_t i = 0; i < smooth_.size(); ++i) {
    for (std::size_t row = 0; row < fit_.jacobian.size(); ++row) {
      const bool is_moved = found.moves(row) && fit_.jacobian[row][i] != 0;
      if (is_moved && (beside.empty() || beside.back() != smooth_[i])) beside.push_back(smooth_[i]);
    }
  }
  return beside;
}

bool Fitter::try_switch(std::size_t parameter, const std::string& text, const Indices& beside) {
  Texts texts = texts_;
  texts[parameter] = text;
  LeastSquares problem = make_problem(beside, texts);
  problem.most_steps = kMostTrialSteps;
  problem.wants_jacobian = false;
  const LeastSquaresFit fit = minimize(problem, point_of(beside, texts));
  if (!(fit.sum() < fit_.sum() * (1 - kBetter))) return false;
  texts_ = texts_with(beside, fit.at, texts);
  return true;
}

// Tries the values of switches beside theirs, with the other parameters fitted to them.
bool Fitter::move_switch_and_refit() {
  for (const std::size_t i : switches_) {
    const SwitchSearch found = search_switch(times_, calibration_, parameters_, i, texts_);
    const auto here = std::ranges::find(found.texts, texts_[i]) - found.texts.begin();
    const std::vector<Time>& times = found.times[static_cast<std::size_t>(here)];
    const Indices beside = list_beside(found);
    for (const int direction : {-1, 1}) {
      auto at = here;
      const auto end = direction < 0 ? -1 : std::ssize(found.texts);
      while (at != end && found.times[static_cast<std::size_t>(at)] == times) at += direction;
      if (at != end && try_switch(i, found.texts[static_cast<std::size_t>(at)], beside))
        return true;
    }
  }
  return false;
}

void Fitter::search() {
  for (int turn = 0; turn < kMostTurns; ++turn) {
    minimize_smooth();
    if (turn == 0) check_switches_move();
    if (!move_switches() && !move_switch_and_refit()) return;
  }
  fit_.has_converged = false;
}

Fit Fitter::run() {
  check_smooth_move();
  for (int i = 0; i < kMostVerifications; ++i) {
    search();
    if (times_.verify(texts_)) return make_fit();
  }
  fit_.has_converged = false;
  return make_fit();
}

void Fitter::judge(ParameterFit& fitted, const Parameter& parameter) const {
  const variants::Range& range = parameter.range;
  if (fitted.value == 0) {
    fitted.faults.emplace_back(
        "it ended at 0: the rows leave it nothing to do; set it to 0 and leave it out");
  } else if (fitted.value <= range.low || fitted.value >= range.high) {
    fitted.faults.push_back(
        fmt::format("it ended at its bound {}: give a wider range, or set it and leave it out",
                    parameter.show(fitted.value)));
  }
  if (fitted.low && !(*fitted.high - *fitted.low <= range.high - range.low)) {
    fitted.faults.push_back(fmt::format(
        "its interval of 95 %, {} to {}, is wider than its bounds: the rows do not determine it; "
        "give rows that it moves more, or set it and leave it out",
        parameter.show(*fitted.low), parameter.show(*fitted.high)));
  }
}

void Fitter::add_collinear(Fit& fit, const Estimates& estimates) const {
  for (std::size_t a = 0; a < smooth_.size(); ++a) {
    for (std::size_t b = 0; b < a; ++b) {
      const double correlation = estimates.correlations[a][b];
      if (std::abs(correlation) < kNearlyCollinear) continue;
      fit.parameters[smooth_[a]].faults.push_back(fmt::format(
          "it is nearly collinear with {}, correlation {:.3f}: the rows determine hardly more than "
          "one of the two; set one of them, or give rows in which they act apart",
          parameters_[smooth_[b]].name(), correlation));
    }
  }
}

// The rows that do not take the same time at all values of the switch.
std::size_t Fitter::count_moved_by(const SwitchSearch& found) const {
  std::size_t count = 0;
  for (std::size_t row = 0; row < calibration_.rows.size(); ++row)
    count += found.moves(row) ? 1 : 0;
  return count;
}

void Fitter::add_estimates(Fit& fit) {
  const int degrees = static_cast<int>(calibration_.rows.size() - parameters_.size());
  const Estimates estimates = estimate(fit_, degrees);
  for (std::size_t i = 0; i < smooth_.size(); ++i) {
    const Parameter& parameter = parameters_[smooth_[i]];
    ParameterFit& fitted = fit.parameters[smooth_[i]];
    if (!fit_.is_held[i]) {
      fitted.low = parameter.to_value(fit_.at[i] - estimates.half_widths[i]);
      fitted.high = parameter.to_value(fit_.at[i] + estimates.half_widths[i]);
    }
    fitted.moved_rows = static_cast<std::size_t>(
        std::ranges::count_if(fit_.jacobian, [&](const Numbers& row) { return row[i] != 0; }));
  }
  for (const std::size_t i : switches_) {
    fit.parameters[i].moved_rows =
        count_moved_by(search_switch(times_, calibration_, parameters_, i, texts_));
  }
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    judge(fit.parameters[i], parameters_[i]);
  }
  add_collinear(fit, estimates);
}

std::optional<Texts> Fitter::refitted_without(std::size_t row) const {
  std::optional<Numbers> point = fit_without(fit_, row);
  if (!point) return std::nullopt;
  for (std::size_t i = 0; i < point->size(); ++i) {
    const Parameter& parameter = parameters_[smooth_[i]];
    (*point)[i] = std::clamp((*point)[i], parameter.to_coordinate(parameter.range.low),
                             parameter.to_coordinate(parameter.range.high));
  }
  return texts_with(smooth_, *point, texts_);
}

void Fitter::add_left_out(Fit& fit) {
  std::vector<RowTimes::Wanted> wanted;
  for (std::size_t row = 0; row < fit.rows.size(); ++row) {
    if (const auto texts = refitted_without(row)) wanted.push_back({row, *texts});
  }
  const std::vector<Time> times = times_.of(wanted);
  for (std::size_t i = 0; i < wanted.size(); ++i) fit.rows[wanted[i].row].left_out = times[i];
}

Fit Fitter::make_fit() {
  Fit fit;
  fit.has_converged = fit_.has_converged;
  for (const Time after : times_.at(texts_)) fit.rows.push_back({.after = after});
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    fit.parameters.push_back({.text = texts_[i], .value = parameters_[i].value_of(texts_[i])});
  }
  add_estimates(fit);
  add_left_out(fit);
  fit.simulated = times_.simulated();
  return fit;
}

}  // namespace

Fit compare_alone(Bench& bench, const Calibration& calibration) {
  const std::vector<Parameter> none;
  RowTimes times(bench, calibration, none);
  Fit fit;
  for (const Time before : times.at(Texts{})) fit.rows.push_back({.before = before});
  return fit;
}

Fit fit(Bench& bench, const Calibration& calibration, const std::vector<Parameter>& parameters) {
  const std::size_t row_count = calibration.rows.size();
  if (2 * parameters.size() > row_count) {
    throw UsageError("KB-U022",
                     "--fit: {} parameters are more than half of the {} rows; fit fewer, or give "
                     "more rows",
                     parameters.size(), row_count);
  }
  const Fit given = compare_alone(bench, calibration);
  Fit fitted = Fitter(bench, calibration, parameters).run();
  for (std::size_t row = 0; row < row_count; ++row)
    fitted.rows[row].before = given.rows[row].before;
  return fitted;
}

}  // namespace kernbench::benches::calibration
