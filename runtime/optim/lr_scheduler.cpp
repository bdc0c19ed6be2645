#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <string_view>
#include <utility>

#include "runtime/optim/optimizer.h"
#include "runtime/optim/update_rules.h"

namespace kernbench::optim {

namespace {

void check_count(std::string_view name, std::int64_t count, std::string_view what) {
  if (count > 0) return;
  refuse(fmt::format("Expected positive integer {}, but got {}: it is {}", name, count, what));
}

void check_factor(std::string_view which, double factor) {
  if (factor >= 0 && factor <= 1) return;
  refuse(fmt::format("{} multiplicative factor expected to be between 0 and 1, not {}.", which,
                     factor));
}

void check_milestones(std::string_view of, const std::vector<std::int64_t>& milestones) {
  if (std::ranges::all_of(milestones, [](std::int64_t at) { return at >= 0; })) return;
  refuse(fmt::format("{}: milestones are epochs, of at least 0, not [{}]", of,
                     fmt::join(milestones, ", ")));
}

}  // namespace

LRScheduler::~LRScheduler() = default;

LRScheduler::LRScheduler(Optimizer& optimizer) : optimizer_(optimizer) {
  for (std::size_t i = 0; i < optimizer.group_count(); ++i)
    bases_.push_back(optimizer.initial_lr(i));
}

void LRScheduler::set_rates(std::int64_t epoch) {
  for (std::size_t i = 0; i < bases_.size(); ++i) optimizer_.set_lr(i, rate(bases_[i], epoch));
}

void LRScheduler::step() {
  set_rates(epoch_ + 1);
  ++epoch_;
}

std::vector<double> LRScheduler::get_last_lr() const {
  std::vector<double> rates;
  for (std::size_t i = 0; i < bases_.size(); ++i) rates.push_back(optimizer_.lr(i));
  return rates;
}

StepLR::StepLR(Optimizer& optimizer, std::int64_t step_size, double gamma)
    : LRScheduler(optimizer), step_size_(step_size), gamma_(gamma) {
  check_number("gamma", gamma);
  check_count("step_size", step_size, "the number of epochs with one rate");
  begin();
}
double StepLR::rate(double base, std::int64_t epoch) const {
  return base * std::pow(gamma_, static_cast<double>(epoch / step_size_));
}

LambdaLR::LambdaLR(Optimizer& optimizer, std::function<double(std::int64_t)> factor)
    : LRScheduler(optimizer), factor_(std::move(factor)) {
  if (!factor_) refuse("LambdaLR wants a function of the epoch, not a handle to nothing");
  begin();
}
double LambdaLR::rate(double base, std::int64_t epoch) const {
  return base * factor_(epoch);
}

LinearLR::LinearLR(Optimizer& optimizer, double start_factor, double end_factor,
                   std::int64_t total_iters)
    : LRScheduler(optimizer), start_(start_factor), end_(end_factor), total_(total_iters) {
  check_factor("Starting", start_factor);
  check_factor("Ending", end_factor);
  check_count("total_iters", total_iters, "the number of epochs until end_factor");
  begin();
}
double LinearLR::rate(double base, std::int64_t epoch) const {
  const auto passed = static_cast<double>(std::min(epoch, total_));
  return base * (start_ + (end_ - start_) * passed / static_cast<double>(total_));
}

CosineAnnealingLR::CosineAnnealingLR(Optimizer& optimizer, std::int64_t T_max, double eta_min)
    : LRScheduler(optimizer), period_(T_max), least_(eta_min) {
  check_count("T_max", T_max, "the number of epochs until eta_min");
  begin();
}
double CosineAnnealingLR::rate(double base, std::int64_t epoch) const {
  const double angle = std::numbers::pi * static_cast<double>(epoch) / static_cast<double>(period_);
  return least_ + (base - least_) * (1 + std::cos(angle)) / 2;
}

namespace {

// The number of milestones up to an epoch, which come in any order.
auto reached(const std::vector<std::int64_t>& milestones, std::int64_t epoch) {
  return std::ranges::count_if(milestones, [&](std::int64_t at) { return at <= epoch; });
}

}  // namespace

MultiStepLR::MultiStepLR(Optimizer& optimizer, std::vector<std::int64_t> milestones, double gamma)
    : LRScheduler(optimizer), milestones_(std::move(milestones)), gamma_(gamma) {
  check_number("gamma", gamma);
  check_milestones("MultiStepLR", milestones_);
  begin();
}
double MultiStepLR::rate(double base, std::int64_t epoch) const {
  return base * std::pow(gamma_, static_cast<double>(reached(milestones_, epoch)));
}

ExponentialLR::ExponentialLR(Optimizer& optimizer, double gamma)
    : LRScheduler(optimizer), gamma_(gamma) {
  check_number("gamma", gamma);
  begin();
}
double ExponentialLR::rate(double base, std::int64_t epoch) const {
  return base * std::pow(gamma_, static_cast<double>(epoch));
}

SequentialLR::SequentialLR(Optimizer& optimizer, std::vector<LRScheduler*> schedulers,
                           std::vector<std::int64_t> milestones)
    : LRScheduler(optimizer),
      schedulers_(std::move(schedulers)),
      milestones_(std::move(milestones)) {
  for (std::size_t i = 0; i < schedulers_.size(); ++i) {
    if (schedulers_[i] == nullptr) {
      refuse(fmt::format("SequentialLR: the scheduler at index {} is null", i));
    }
    if (&schedulers_[i]->optimizer() == &optimizer) continue;
    refuse(fmt::format(
        "Sequential Schedulers expects all schedulers to belong to the same optimizer, but got "
        "schedulers at index {} to be different than the optimizer passed in.",
        i));
  }
  if (schedulers_.size() != milestones_.size() + 1) {
    refuse(
        fmt::format("Sequential Schedulers expects number of schedulers provided to be one more "
                    "than the number of milestone points, but got number of schedulers {} and "
                    "the number of milestones to be equal to {}",
                    schedulers_.size(), milestones_.size()));
  }
  check_milestones("SequentialLR", milestones_);
  if (!std::ranges::is_sorted(milestones_)) {
    refuse(fmt::format("SequentialLR: milestones must be increasing, not [{}]",
                       fmt::join(milestones_, ", ")));
  }
  begin();
}

void SequentialLR::set_rates(std::int64_t epoch) {
  const auto which = static_cast<std::size_t>(reached(milestones_, epoch));
  schedulers_[which]->set_rates(which == 0 ? epoch : epoch - milestones_[which - 1]);
}

namespace {

double of_group(const PerGroup& values, std::size_t group) {
  return values.size() == 1 ? values[0] : values[group];
}

void check_size(std::string_view name, const PerGroup& values, std::size_t groups) {
  if (values.size() == 1 || values.size() == groups) return;
  refuse(fmt::format("expected {} values for {}, got {}", groups, name, values.size()));
}

std::int64_t steps_of(const OneCycleLROptions& options) {
  const auto check = [](std::string_view name, std::int64_t count) {
    check_count(name, count, "a number of calls of step()");
    return count;
  };
  if (options.total_steps) return check("total_steps", *options.total_steps);
  if (options.epochs && options.steps_per_epoch) {
    return check("epochs", *options.epochs) * check("steps_per_epoch", *options.steps_per_epoch);
  }
  refuse("You must define either total_steps OR (epochs AND steps_per_epoch)");
}

void check_cycle(const OneCycleLROptions& options, const Optimizer& optimizer) {
  if (!(options.pct_start >= 0 && options.pct_start <= 1)) {
    refuse(fmt::format("Expected float between 0 and 1 pct_start, but got {}", options.pct_start));
  }
  if (options.anneal_strategy != "cos" && options.anneal_strategy != "linear") {
    refuse(fmt::format("anneal_strategy must by one of 'cos' or 'linear', instead got {}",
                       options.anneal_strategy));
  }
  for (const double factor : {options.div_factor, options.final_div_factor}) {
    if (factor > 0) continue;
    refuse(
        fmt::format("OneCycleLR: div_factor and final_div_factor divide rates; they are more "
                    "than 0, not {}",
                    factor));
  }
  check_size("max_lr", options.max_lr, optimizer.group_count());
  if (!options.cycle_momentum) return;
  if (!optimizer.momentum(0)) {
    refuse("optimizer must support momentum with `cycle_momentum` option enabled");
  }
  check_size("max_momentum", options.max_momentum, optimizer.group_count());
  check_size("base_momentum", options.base_momentum, optimizer.group_count());
}

// Where in a cycle a step is: from one value to the next one, and how far.
struct Position {
  std::size_t phase = 0;
  double passed = 0;
};

// The expressions are torch's, so that the last bits are.
Position find_position(double step, double total, const OneCycleLROptions& options) {
  std::vector<double> ends{options.pct_start * total - 1, total - 1};
  if (options.three_phase) ends.insert(ends.begin() + 1, 2 * options.pct_start * total - 2);
  double start = 0;
  std::size_t phase = 0;
  while (phase + 1 < ends.size() && step > ends[phase]) start = ends[phase++];
  return {phase, (step - start) / (ends[phase] - start)};
}

double anneal(double start, double end, double passed, bool is_linear) {
  if (is_linear) return (end - start) * passed + start;
  return end + (start - end) / 2 * (std::cos(std::numbers::pi * passed) + 1);
}

}  // namespace

OneCycleLR::OneCycleLR(Optimizer& optimizer, OneCycleLROptions options)
    : LRScheduler(optimizer),
      options_(std::move(options)),
      total_(static_cast<double>(steps_of(options_))) {
  check_cycle(options_, optimizer);
  for (std::size_t i = 0; i < optimizer.group_count(); ++i) {
    optimizer.set_initial_lr(i, of_group(options_.max_lr, i) / options_.div_factor);
  }
  begin();
}

void OneCycleLR::set_rates(std::int64_t epoch) {
  const auto step = static_cast<double>(epoch);
  if (step > total_) {
    refuse(fmt::format("Tried to step {} times. The specified number of total steps is {}",
                       epoch + 1, total_));
  }
  const auto [phase, passed] = find_position(step, total_, options_);
  const bool is_linear = options_.anneal_strategy == "linear";
  for (std::size_t i = 0; i < optimizer_.group_count(); ++i) {
    const double most = of_group(options_.max_lr, i);
    const double first = most / options_.div_factor;
    std::vector<double> rates{first, most, first / options_.final_div_factor};
    if (options_.three_phase) rates.insert(rates.begin() + 2, first);
    optimizer_.set_lr(i, anneal(rates[phase], rates[phase + 1], passed, is_linear));
    if (!options_.cycle_momentum) continue;
    const double high = of_group(options_.max_momentum, i);
    const std::array momenta{high, of_group(options_.base_momentum, i), high, high};
    optimizer_.set_momentum(i, anneal(momenta[phase], momenta[phase + 1], passed, is_linear));
  }
}

}  // namespace kernbench::optim
