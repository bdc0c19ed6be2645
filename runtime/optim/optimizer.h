// torch::optim: SGD, Adam, AdamW, RMSprop and Adagrad, as torch 1.13.1 computes them (ADR-0209).
//
// step() launches one kernel for all parameters of a type and of the same holders, and nothing
// moves between PEs: a gradient lies as its parameter.  Everything is computed in f32 and rounded
// once to the parameter's type, as is the state, which lies beside the parameter.  Parameters
// without a gradient are skipped, and their steps do not count.

#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/nn/module.h"
#include "runtime/nn/state.h"
#include "runtime/tensor/tensor.h"

namespace kernbench::optim {

// Parameters with options of their own.
template <class Options>
struct ParamGroup {
  std::vector<Tensor> params;
  Options options;
};

// The base of all: what a scheduler and a training loop use.
class Optimizer {
 public:
  Optimizer();
  virtual ~Optimizer();
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  // Updates the parameters.  Throws DeviceError KB-F003 for a gradient that lies otherwise than its
  // parameter, as a partial one does.
  virtual void step() = 0;
  virtual std::size_t group_count() const = 0;
  // Throw CollectiveError KB-A012 for a group that there is not, and for rates that are not finite;
  // a schedule may leave one below 0.
  virtual double lr(std::size_t group) const = 0;
  virtual void set_lr(std::size_t group, double lr) = 0;
  // The rate that a group had when it was first asked for, by a scheduler, or what a scheduler has
  // set (torch's initial_lr).
  double initial_lr(std::size_t group);
  void set_initial_lr(std::size_t group, double lr);
  // Returns what OneCycleLR cycles: momentum or, of Adam, the first beta; none without either.
  // Setting it then throws KB-A012.
  virtual std::optional<double> momentum(std::size_t group) const;
  virtual void set_momentum(std::size_t group, double momentum);
  virtual std::vector<Tensor> parameters() const = 0;

  // Drops the gradients; with set_to_none = false, fills them with 0.
  virtual void zero_grad(bool set_to_none = true);

  // Updates `by` from now on instead of `parameter`: a master copy in f32 (float16_optimizer.h).
  // Throws CollectiveError KB-A012 for a tensor that is no parameter.
  virtual void replace_parameter(const Tensor& parameter, const Tensor& by) = 0;

  // The state with torch's names, parameters numbered in order: tensors "state.0.exp_avg", handles
  // that change with later steps; numbers "state.0.step", "param_groups.0.lr".
  virtual nn::State state_dict() const = 0;
  // Copies such a state, over the host link.  Throws CollectiveError KB-A012, in torch's words, for
  // other numbers of groups or parameters; for options or tensors that are missing, as in a state
  // of another kind of optimizer, have another shape, or that it does not take.  Then nothing is
  // loaded.
  virtual void load_state_dict(const nn::State& state) = 0;

 private:
  std::map<std::size_t, double> initial_lrs_;
};

class SGDOptions {
 public:
  explicit SGDOptions(double lr) : lr_(lr) {}
  KERNBENCH_OPTION(double, lr);
  KERNBENCH_OPTION(double, momentum, 0);
  KERNBENCH_OPTION(double, dampening, 0);
  KERNBENCH_OPTION(double, weight_decay, 0);
  KERNBENCH_OPTION(bool, nesterov, false);
  KERNBENCH_OPTION(bool, maximize, false);  // the objective grows: gradients are negated
};

struct AdamBetas {
  double first = 0.9;
  double second = 0.999;
};
// The options of Adam and AdamW.  They differ in the default of weight_decay, which is given in per
// cent, and in what it does.
template <int default_decay>
class AdamOptionsWith {
 public:
  explicit AdamOptionsWith(double lr = 1e-3) : lr_(lr) {}
  KERNBENCH_OPTION(double, lr);
  KERNBENCH_OPTION(AdamBetas, betas);
  KERNBENCH_OPTION(double, eps, 1e-8);
  KERNBENCH_OPTION(double, weight_decay, default_decay / 100.0);
  KERNBENCH_OPTION(bool, amsgrad, false);  // divides by the largest mean of squares so far
  KERNBENCH_OPTION(bool, maximize, false);
};
using AdamOptions = AdamOptionsWith<0>;
using AdamWOptions = AdamOptionsWith<1>;

class RMSpropOptions {
 public:
  explicit RMSpropOptions(double lr = 1e-2) : lr_(lr) {}
  KERNBENCH_OPTION(double, lr);
  KERNBENCH_OPTION(double, alpha, 0.99);
  KERNBENCH_OPTION(double, eps, 1e-8);
  KERNBENCH_OPTION(double, weight_decay, 0);
  KERNBENCH_OPTION(double, momentum, 0);
  KERNBENCH_OPTION(bool, centered, false);  // divides by the deviation from the mean gradient
  KERNBENCH_OPTION(bool, maximize, false);
};

class AdagradOptions {
 public:
  explicit AdagradOptions(double lr = 1e-2) : lr_(lr) {}
  KERNBENCH_OPTION(double, lr);
  KERNBENCH_OPTION(double, lr_decay, 0);
  KERNBENCH_OPTION(double, weight_decay, 0);
  KERNBENCH_OPTION(double, initial_accumulator_value, 0);
  KERNBENCH_OPTION(double, eps, 1e-10);
  KERNBENCH_OPTION(bool, maximize, false);
};

// The state that an optimizer keeps for a parameter.
struct ParameterState {
  std::int64_t step = 0;
  Tensor first;   // SGD: the momentum; Adam: the mean of gradients; RMSprop: of their squares;
                  // Adagrad: the sum of squares
  Tensor second;  // Adam: the mean of squares; centered RMSprop: the mean of gradients
  Tensor third;   // Adam with amsgrad: the largest of those means; RMSprop: the momentum
};

// The part that all optimizers share, for one type of options.
template <class Options>
class OptimizerOf : public Optimizer {
 public:
  explicit OptimizerOf(std::vector<Tensor> params, const Options& options = Options())
      : OptimizerOf(std::vector{ParamGroup<Options>{std::move(params), options}}) {}
  OptimizerOf(std::vector<Tensor> params, double lr)
      : OptimizerOf(std::move(params), Options(lr)) {}
  explicit OptimizerOf(std::vector<ParamGroup<Options>> groups);
  ~OptimizerOf() override;
  std::size_t group_count() const override { return groups_.size(); }
  void step() override;
  double lr(std::size_t group) const override;
  void set_lr(std::size_t group, double lr) override;
  std::optional<double> momentum(std::size_t group) const override;
  void set_momentum(std::size_t group, double momentum) override;
  std::vector<Tensor> parameters() const override;
  void replace_parameter(const Tensor& parameter, const Tensor& by) override;
  nn::State state_dict() const override;
  void load_state_dict(const nn::State& state) override;
  std::vector<ParamGroup<Options>>& param_groups() { return groups_; }
  // Throws CollectiveError KB-A012, in torch's words, for a parameter that is no leaf, or in
  // several groups.
  void add_param_group(ParamGroup<Options> group);
  // The state of a parameter; undefined tensors before its first step.
  const ParameterState& state(const Tensor& parameter) const;

 private:
  ParameterState& state_of(const Tensor& parameter) { return states_[parameter.storage().get()]; }
  void begin_state(ParameterState& state, const Tensor& parameter, const Options& options);
  Options options_in(const nn::State& state, std::size_t group) const;

  std::vector<ParamGroup<Options>> groups_;
  std::map<const Tensor::Storage*, ParameterState> states_;  // never iterated
};

extern template class OptimizerOf<SGDOptions>;
extern template class OptimizerOf<AdamOptions>;
extern template class OptimizerOf<AdamWOptions>;
extern template class OptimizerOf<RMSpropOptions>;
extern template class OptimizerOf<AdagradOptions>;

// d = g + weight_decay w; with momentum, b = d at first and momentum b + (1 - dampening) d later, d
// = b, or d + momentum b with nesterov; w -= lr d.
class SGD : public OptimizerOf<SGDOptions> {
 public:
  using OptimizerOf::OptimizerOf;
};

// g += weight_decay w; m = b1 m + (1 - b1) g; v = b2 v + (1 - b2) g g;
// w -= lr / (1 - b1^t) m / (sqrt(v) / sqrt(1 - b2^t) + eps); with amsgrad, the largest v so far.
class Adam : public OptimizerOf<AdamOptions> {
 public:
  using OptimizerOf::OptimizerOf;
};

// AdamW is Adam, but multiplies w by 1 - lr weight_decay first and leaves g as it is.
class AdamW : public OptimizerOf<AdamWOptions> {
 public:
  using OptimizerOf::OptimizerOf;
};

// g += weight_decay w; v = alpha v + (1 - alpha) g g; d = g / (sqrt(v) + eps), and if centered,
// with m = alpha m + (1 - alpha) g, of v - m m instead of v; with momentum, b = momentum b + d and
// d = b; w -= lr d.
class RMSprop : public OptimizerOf<RMSpropOptions> {
 public:
  using OptimizerOf::OptimizerOf;
};

// g += weight_decay w; s += g g; w -= lr / (1 + (t - 1) lr_decay) g / (sqrt(s) + eps).  s, as in
// torch, has initial_accumulator_value and its place from the constructor on.
class Adagrad : public OptimizerOf<AdagradOptions> {
 public:
  using OptimizerOf::OptimizerOf;
};

}  // namespace kernbench::optim

namespace kernbench::nn::utils {

struct ClipOptions {
  bool error_if_nonfinite = false;
};

// Scales the gradients so that their 2-norm together is at most max_norm, and returns what it was
// (torch.nn.utils.clip_grad_norm_): each is multiplied by max_norm / (norm + 1e-6), at most 1.
// Parameters without a gradient are left out.  For shards of parameters (fully_shard) it is the
// norm of the whole gradients: ranks add up their squares by an all_reduce of one f32 number for
// each group.  The host reads the norms, and so waits.  In a
// context without data the gradients are multiplied by 1, and the norm is 0. Throws DeviceError
// KB-F003 for a partial gradient; CollectiveError KB-A013, in torch's words, for a norm that is not
// finite, if error_if_nonfinite.
double clip_grad_norm_(const std::vector<Tensor>& parameters, double max_norm,
                       const ClipOptions& options = {});

// Moves each element of the gradients into [-clip_value, clip_value].
void clip_grad_value_(const std::vector<Tensor>& parameters, double clip_value);

}  // namespace kernbench::nn::utils

namespace kernbench::optim {

// torch.optim.lr_scheduler: step() once per epoch, or per step of training.  Rates are those of the
// closed forms, in f64.  Constructors throw CollectiveError KB-A012 for arguments that give no
// rates, in torch's words where it has them.

class LRScheduler {
 public:
  virtual ~LRScheduler();
  LRScheduler(const LRScheduler&) = delete;
  LRScheduler& operator=(const LRScheduler&) = delete;

  // Sets each group's rate for the next epoch.
  void step();
  std::vector<double> get_last_lr() const;
  std::int64_t last_epoch() const { return epoch_; }
  const Optimizer& optimizer() const { return optimizer_; }
  // Sets the rates of an epoch, which it does not count.
  virtual void set_rates(std::int64_t epoch);

 protected:
  // Takes each group's first rate, that before any scheduler (torch's initial_lr), and sets those
  // of epoch 0: subclasses end their constructors with begin().
  explicit LRScheduler(Optimizer& optimizer);
  void begin() { set_rates(0); }

  // The rate of a group in an epoch, for its first one.
  virtual double rate(double base, std::int64_t epoch) const = 0;

  Optimizer& optimizer_;

 private:
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

// base * gamma^(number of milestones that have been reached, in any order).
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
// warm-up and what follows it do.  They are of one optimizer and live longer than this one, which
// alone is stepped.
class SequentialLR : public LRScheduler {
 public:
  SequentialLR(Optimizer& optimizer, std::vector<LRScheduler*> schedulers,
               std::vector<std::int64_t> milestones);
  void set_rates(std::int64_t epoch) override;

 private:
  double rate(double base, std::int64_t) const override { return base; }
  std::vector<LRScheduler*> schedulers_;
  std::vector<std::int64_t> milestones_;
};

// One number for all groups, or one for each.
struct PerGroup : std::vector<double> {
  PerGroup(double for_all) : std::vector<double>{for_all} {}
  PerGroup(std::initializer_list<double> each) : std::vector<double>(each) {}
};

// The keyword arguments of torch's OneCycleLR, with its defaults; total_steps, or epochs times
// steps_per_epoch.
struct OneCycleLROptions {
  PerGroup max_lr;
  std::optional<std::int64_t> total_steps = {};
  std::optional<std::int64_t> epochs = {};
  std::optional<std::int64_t> steps_per_epoch = {};
  double pct_start = 0.3;               // the part of the steps in which the rate grows
  std::string anneal_strategy = "cos";  // or "linear"
  bool cycle_momentum = true;           // against the rate; the optimizer must have a momentum
  PerGroup base_momentum = 0.85;
  PerGroup max_momentum = 0.95;
  double div_factor = 25;         // the first rate is max_lr / div_factor
  double final_div_factor = 1e4;  // and the last one that one / final_div_factor
  bool three_phase = false;       // down to the first rate, as long as it grew, then to the last
};

// Smith and Topin's 1cycle: the rate grows to max_lr and falls again, over total_steps steps.  A
// step beyond them throws CollectiveError KB-A012, in torch's words.
//   kb::optim::OneCycleLR schedule(optimizer, {.max_lr = 0.1, .total_steps = 1000});
class OneCycleLR : public LRScheduler {
 public:
  OneCycleLR(Optimizer& optimizer, OneCycleLROptions options);
  void set_rates(std::int64_t epoch) override;

 private:
  double rate(double base, std::int64_t) const override { return base; }
  OneCycleLROptions options_;
  double total_;
};

}  // namespace kernbench::optim
