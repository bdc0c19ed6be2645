// Loss scaling for training in f16, whose gradients would vanish: torch.cuda.amp.GradScaler, and
// Megatron's DynamicGradScaler for optimizers with f32 masters (ADR-0218).

#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "runtime/nn/option.h"
#include "runtime/nn/state.h"
#include "runtime/tensor/tensor.h"

namespace kernbench::optim {

class Optimizer;

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
  enum class Stage : std::uint8_t { ready, unscaled, stepped };
  struct PerOptimizer {
    Stage stage = Stage::ready;
    bool found_inf = false;
  };

  GradScalerOptions options_;
  double scale_;
  std::int64_t growth_tracker_ = 0;
  std::map<const Optimizer*, PerOptimizer> states_;  // summed up, in no order
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

}  // namespace kernbench::optim
