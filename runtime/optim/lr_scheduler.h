// torch.optim.lr_scheduler: step() once per epoch, or per step of training.  Rates are those of the
// closed forms, in f64.

#pragma once

#include <cstdint>
#include <vector>

#include "runtime/optim/optimizer.h"
#include "sim_engine/base/function.h"

namespace kernbench::optim {

class LRScheduler {
 public:
  virtual ~LRScheduler() = default;
  LRScheduler(const LRScheduler&) = delete;
  LRScheduler& operator=(const LRScheduler&) = delete;

  // Sets each group's rate for the next epoch.
  void step();
  std::vector<double> get_last_lr() const;
  std::int64_t last_epoch() const { return epoch_; }
  // The rate of a group in an epoch, for its first one.
  virtual double rate(double base, std::int64_t epoch) const = 0;

 protected:
  // Takes each group's first rate, that before any scheduler (torch's initial_lr), and sets those
  // of epoch 0: subclasses end their constructors with begin().
  explicit LRScheduler(Optimizer& optimizer);
  void begin() { set(); }

 private:
  void set();

  Optimizer& optimizer_;
  std::vector<double> bases_;
  std::int64_t epoch_ = 0;
};

// base * gamma^(epoch / step_size), the quotient rounded down.
class StepLR : public LRScheduler {
 public:
  StepLR(Optimizer& optimizer, std::int64_t step_size, double gamma = 0.1);

 private:
  double rate(double base, std::int64_t epoch) const override;
  std::int64_t step_size_;
  double gamma_;
};

// base * factor(epoch).
class LambdaLR : public LRScheduler {
 public:
  LambdaLR(Optimizer& optimizer, std::function<double(std::int64_t)> factor);

 private:
  double rate(double base, std::int64_t epoch) const override;
  std::function<double(std::int64_t)> factor_;
};

// base times a factor that grows from start_factor to end_factor over total_iters epochs.
class LinearLR : public LRScheduler {
 public:
  explicit LinearLR(Optimizer& optimizer, double start_factor = 1.0 / 3, double end_factor = 1,
                    std::int64_t total_iters = 5);

 private:
  double rate(double base, std::int64_t epoch) const override;
  double start_;
  double end_;
  std::int64_t total_;
};

// eta_min + (base - eta_min) (1 + cos(pi epoch / T_max)) / 2.
class CosineAnnealingLR : public LRScheduler {
 public:
  CosineAnnealingLR(Optimizer& optimizer, std::int64_t T_max, double eta_min = 0);

 private:
  double rate(double base, std::int64_t epoch) const override;
  std::int64_t period_;
  double least_;
};

// base * gamma^(number of milestones that have been reached).
class MultiStepLR : public LRScheduler {
 public:
  MultiStepLR(Optimizer& optimizer, std::vector<std::int64_t> milestones, double gamma = 0.1);

 private:
  double rate(double base, std::int64_t epoch) const override;
  std::vector<std::int64_t> milestones_;
  double gamma_;
};

// base * gamma^epoch.
class ExponentialLR : public LRScheduler {
 public:
  ExponentialLR(Optimizer& optimizer, double gamma);

 private:
  double rate(double base, std::int64_t epoch) const override;
  double gamma_;
};

// One scheduler after the other: the next one takes over at each milestone, with epoch 0, as a
// warm-up and what follows it do.  They live longer than this one, which alone is stepped.  Throws
// DeviceError KB-F001, in torch's words, unless there is one milestone less than schedulers.
class SequentialLR : public LRScheduler {
 public:
  SequentialLR(Optimizer& optimizer, std::vector<LRScheduler*> schedulers,
               std::vector<std::int64_t> milestones);

 private:
  double rate(double base, std::int64_t epoch) const override;
  std::vector<LRScheduler*> schedulers_;
  std::vector<std::int64_t> milestones_;
};

}  // namespace kernbench::optim
