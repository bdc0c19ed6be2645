#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "runtime/optim/optimizer.h"
#include "sim_engine/base/error.h"

namespace kernbench::optim {

LRScheduler::~LRScheduler() = default;

LRScheduler::LRScheduler(Optimizer& optimizer) : optimizer_(optimizer) {
  for (std::size_t i = 0; i < optimizer.group_count(); ++i)
    bases_.push_back(optimizer.initial_lr(i));
}

void LRScheduler::set() {
  for (std::size_t i = 0; i < bases_.size(); ++i) optimizer_.set_lr(i, rate(bases_[i], epoch_));
}

void LRScheduler::step() {
  ++epoch_;
  set();
}

std::vector<double> LRScheduler::get_last_lr() const {
  std::vector<double> rates;
  for (std::size_t i = 0; i < bases_.size(); ++i) rates.push_back(optimizer_.lr(i));
  return rates;
}

StepLR::StepLR(Optimizer& optimizer, std::int64_t step_size, double gamma)
    : LRScheduler(optimizer), step_size_(step_size), gamma_(gamma) {
  begin();
}
double StepLR::rate(double base, std::int64_t epoch) const {
  return base * std::pow(gamma_, static_cast<double>(epoch / step_size_));
}

LambdaLR::LambdaLR(Optimizer& optimizer, std::function<double(std::int64_t)> factor)
    : LRScheduler(optimizer), factor_(std::move(factor)) {
  begin();
}
double LambdaLR::rate(double base, std::int64_t epoch) const {
  return base * factor_(epoch);
}

LinearLR::LinearLR(Optimizer& optimizer, double start_factor, double end_factor,
                   std::int64_t total_iters)
    : LRScheduler(optimizer), start_(start_factor), end_(end_factor), total_(total_iters) {
  begin();
}
double LinearLR::rate(double base, std::int64_t epoch) const {
  const auto passed = static_cast<double>(std::min(epoch, total_));
  return base * (start_ + (end_ - start_) * passed / static_cast<double>(total_));
}

CosineAnnealingLR::CosineAnnealingLR(Optimizer& optimizer, std::int64_t T_max, double eta_min)
    : LRScheduler(optimizer), period_(T_max), least_(eta_min) {
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
  begin();
}
double MultiStepLR::rate(double base, std::int64_t epoch) const {
  return base * std::pow(gamma_, static_cast<double>(reached(milestones_, epoch)));
}

ExponentialLR::ExponentialLR(Optimizer& optimizer, double gamma)
    : LRScheduler(optimizer), gamma_(gamma) {
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
  if (schedulers_.size() != milestones_.size() + 1) {
    throw DeviceError(
        "KB-F001", fmt::format("Sequential Schedulers expects number of schedulers provided to be "
                               "one more than the number of milestone points, but got number of "
                               "schedulers {} and the number of milestones to be equal to {}",
                               schedulers_.size(), milestones_.size()));
  }
  begin();
}
double SequentialLR::rate(double base, std::int64_t epoch) const {
  const auto which = static_cast<std::size_t>(reached(milestones_, epoch));
  const std::int64_t start = which == 0 ? 0 : milestones_[which - 1];
  return schedulers_[which]->rate(base, epoch - start);
}

}  // namespace kernbench::optim
