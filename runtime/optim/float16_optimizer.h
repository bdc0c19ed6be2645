// Training in f16 or bf16: scales of losses, and optimizers with masters in f32 (ADR-0160).

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/distributed/options.h"
#include "runtime/distributed/process_group.h"
#include "runtime/nn/module.h"
#include "runtime/nn/state.h"
#include "runtime/optim/optimizer.h"
#include "runtime/tensor/tensor.h"

namespace kernbench {
class RuntimeContext;
}

namespace kernbench::optim {

// Loss scaling for training in f16, whose gradients would vanish: torch.cuda.amp.GradScaler, and
// Megatron's DynamicGradScaler for optimizers with f32 masters (ADR-0160).

class GradScalerOptions {
 public:
  KERNBENCH_OPTION(double, init_scale, 65536);
  KERNBENCH_OPTION(double, growth_factor, 2);
  KERNBENCH_OPTION(double, backoff_factor, 0.5);
  KERNBENCH_OPTION(std::int64_t, growth_interval, 2000);
  KERNBENCH_OPTION(bool, enabled, true);
};

//   scaler.scale(loss).backward();
//   scaler.unscale_(optimizer);  // where gradients are clipped; step() does it otherwise
//   scaler.step(optimizer);      // unless a gradient is infinite or NaN
//   scaler.update();
//
// The scale is multiplied by growth_factor after growth_interval steps without such gradients, and
// by backoff_factor after each with one.  In a context without data all are finite.
class GradScaler {
 public:
  // Throws CollectiveError KB-A018, in torch's words, for factors that do not grow or back off.
  explicit GradScaler(const GradScalerOptions& options = {});
  ~GradScaler();

  Tensor scale(const Tensor& outputs) const;
  // Divides the gradients of the optimizer's parameters by the scale, with one kernel, and looks
  // for infinities.  Throws CollectiveError KB-A018, in torch's words, if it is called twice before
  // update() or after step(), and for gradients in f16, of which f32 masters are kept
  // (Float16OptimizerWithFloat16Params).
  void unscale_(Optimizer& optimizer);
  // Returns false if the step was skipped.  Throws KB-A018 if it is called twice before update().
  bool step(Optimizer& optimizer);
  // Throws KB-A018 if no optimizer was unscaled since the last update().
  void update(std::optional<double> new_scale = {});

  double get_scale() const { return options_.enabled() ? scale_ : 1; }
  bool is_enabled() const { return options_.enabled(); }
  nn::State state_dict() const;
  void load_state_dict(const nn::State& state);

 private:
  struct States;

  GradScalerOptions options_;
  double scale_;
  std::int64_t growth_tracker_ = 0;
  std::unique_ptr<States> states_;  // of its optimizers
};

class DynamicGradScalerOptions {
 public:
  KERNBENCH_OPTION(double, initial_scale, 4294967296.0);
  KERNBENCH_OPTION(double, min_scale, 1);
  KERNBENCH_OPTION(double, growth_factor, 2);
  KERNBENCH_OPTION(double, backoff_factor, 0.5);
  KERNBENCH_OPTION(std::int64_t, growth_interval, 1000);
  KERNBENCH_OPTION(std::int64_t, hysteresis, 2);
};

// Megatron's: the scale falls only when `hysteresis` steps since it last grew had infinities.
class DynamicGradScaler {
 public:
  explicit DynamicGradScaler(const DynamicGradScalerOptions& options = {});

  double scale() const { return scale_; }
  double inv_scale() const { return 1 / scale_; }
  void update(bool found_inf);
  nn::State state_dict() const;
  void load_state_dict(const nn::State& state);

 private:
  DynamicGradScalerOptions options_;
  double scale_;
  std::int64_t growth_tracker_ = 0;
  std::int64_t hysteresis_tracker_;
};

// Multiplies gradients by a number with one kernel for each type.
void scale_gradients(const std::vector<Tensor>& gradients, double factor);
// True if an element of any of these is infinite or NaN.  The host reads, and so waits.
bool has_nonfinite(const std::vector<Tensor>& gradients);

struct Float16OptimizerOptions {
  double clip_grad = 0;  // largest norm of the gradients, once they are unscaled; 0: any
  // Scales the loss, as f16 needs; none: it is not scaled.
  std::optional<DynamicGradScalerOptions> grad_scaler = std::nullopt;
  // The ranks that have different parameters of the model: infinities and norms are theirs
  // together.  With tensor parallelism it is that group.
  std::optional<distributed::ProcessGroup> grad_stats_parallel_group = std::nullopt;
  // False for a parameter that another rank of the group counts: one that all have alike.
  std::function<bool(const Tensor& parameter)> counts_in_norm = nullptr;
};

// Wraps an optimizer, whose f16 and bf16 parameters become masters in f32, each where its parameter
// is.
//
//   Float16OptimizerWithFloat16Params optimizer(
//       torch, std::make_unique<AdamW>(model->parameters(), 1e-3), {.clip_grad = 1});
//   optimizer.scale_loss(loss).backward();
//   optimizer.step();
//
// step() copies gradients to f32 and unscales them; looks for infinities, with which it skips the
// rest; clips; updates the masters, and rounds them into the parameters.  Each of these is a kernel
// for all tensors of a type.  Parameters in f32 are their own masters.
class Float16OptimizerWithFloat16Params : public Optimizer {
 public:
  Float16OptimizerWithFloat16Params(RuntimeContext& torch, std::unique_ptr<Optimizer> optimizer,
                                    Float16OptimizerOptions options = {});
  ~Float16OptimizerWithFloat16Params() override;

  Tensor scale_loss(const Tensor& loss) const;
  double get_loss_scale() const;

  // Megatron's step() returns these values.
  struct StepResult {
    bool success = false;  // false: a gradient was not finite, and nothing was updated
    double grad_norm = 0;  // before clipping; 0 unless gradients are clipped
  };
  // The gradients of f16 and bf16 parameters are gone afterwards.
  void step() override;
  const StepResult& last_step() const { return last_; }

  void zero_grad(bool set_to_none = true) override;
  std::size_t group_count() const override { return optimizer_->group_count(); }
  double lr(std::size_t group) const override { return optimizer_->lr(group); }
  void set_lr(std::size_t group, double lr) override { optimizer_->set_lr(group, lr); }
  std::optional<double> momentum(std::size_t group) const override {
    return optimizer_->momentum(group);
  }
  void set_momentum(std::size_t group, double momentum) override {
    optimizer_->set_momentum(group, momentum);
  }
  // The model's parameters, and those in f32 that are updated.
  std::vector<Tensor> parameters() const override { return model_; }
  std::vector<Tensor> main_parameters() const { return main_; }
  void replace_parameter(const Tensor& parameter, const Tensor& by) override;
  // Rounds the parameters into the masters, after a model was loaded.
  void reload_model_params();

  // The wrapped optimizer's state; the masters, as tensors "fp32_from_fp16_params.0"; and the
  // scaler's numbers, as "grad_scaler.scale".
  nn::State state_dict() const override;
  void load_state_dict(const nn::State& state) override;

 private:
  std::vector<Tensor> copy_model_grads_to_main_grads();
  bool found_inf(const std::vector<Tensor>& gradients) const;
  double clip(const std::vector<Tensor>& gradients) const;
  void copy(const std::vector<Tensor>& from, const std::vector<Tensor>& to);
  bool has_master(std::size_t i) const { return model_[i].storage() != main_[i].storage(); }
  double over_ranks(double value, ReduceOp op) const;

  RuntimeContext& torch_;
  const std::unique_ptr<Optimizer> optimizer_;
  const Float16OptimizerOptions options_;
  std::unique_ptr<DynamicGradScaler> scaler_;  // null: the loss is not scaled
  std::vector<Tensor> model_;
  std::vector<Tensor> main_;  // of the same numbers
  StepResult last_;
};

}  // namespace kernbench::optim
