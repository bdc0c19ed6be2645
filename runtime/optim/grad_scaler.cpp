#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/functional/operators.h"
#include "runtime/optim/float16_optimizer.h"
#include "runtime/optim/fused_update.h"
#include "runtime/optim/optimizer.h"
#include "sim_engine/base/error.h"

namespace kernbench::optim {

namespace {

[[noreturn]] void wrong_use(const std::string& text) {
  throw CollectiveError("KB-A018", text);
}

}  // namespace

// How far each optimizer's step is.  States are summed up, in no order.
struct GradScaler::States {
  enum class Stage : std::uint8_t { ready, unscaled, stepped };
  struct PerOptimizer {
    Stage stage = Stage::ready;
    bool found_inf = false;
  };
  std::map<const Optimizer*, PerOptimizer> of;
};

void scale_gradients(const std::vector<Tensor>& gradients, double factor) {
  std::vector<Assignment> scaled;
  for (const Tensor& gradient : gradients) scaled.push_back({gradient, gradient, factor});
  assign("scale_gradients", std::move(scaled),
         [](tl::Context&, const tl::Tensor& g, double number) { return g * number; });
}

// A finite number times 0 is 0; infinities and NaN give NaN, which stays in the sum.
bool has_nonfinite(const std::vector<Tensor>& gradients) {
  const std::vector<double> zeros =
      sums("found_inf", gradients, [](const tl::Tensor& g) { return g * 0; });
  return std::ranges::any_of(zeros, [](double zero) { return std::isnan(zero); });
}

GradScaler::GradScaler(const GradScalerOptions& options)
    : options_(options), scale_(options.init_scale()), states_(std::make_unique<States>()) {
  if (!options.enabled()) return;
  if (options.growth_factor() <= 1) wrong_use("The growth factor must be > 1.0.");
  if (options.backoff_factor() >= 1) wrong_use("The backoff factor must be < 1.0.");
}

GradScaler::~GradScaler() = default;

Tensor GradScaler::scale(const Tensor& outputs) const {
  return options_.enabled() ? outputs * scale_ : outputs;
}

void GradScaler::unscale_(Optimizer& optimizer) {
  if (!options_.enabled()) return;
  using Stage = States::Stage;
  States::PerOptimizer& state = states_->of[&optimizer];
  if (state.stage == Stage::unscaled) {
    wrong_use("unscale_() has already been called on this optimizer since the last update().");
  }
  if (state.stage == Stage::stepped) wrong_use("unscale_() is being called after step().");
  std::vector<Tensor> gradients;
  for (const Tensor& parameter : optimizer.parameters()) {
    if (!parameter.grad().defined()) continue;
    if (parameter.grad().dtype() == DType::f16) wrong_use("Attempting to unscale FP16 gradients.");
    gradients.push_back(parameter.grad().detach());
  }
  if (gradients.empty()) wrong_use("No inf checks were recorded for this optimizer.");
  state.found_inf = has_nonfinite(gradients);
  scale_gradients(gradients, 1 / scale_);
  state.stage = Stage::unscaled;
}

bool GradScaler::step(Optimizer& optimizer) {
  if (!options_.enabled()) {
    optimizer.step();
    return true;
  }
  using Stage = States::Stage;
  if (states_->of[&optimizer].stage == Stage::stepped) {
    wrong_use("step() has already been called since the last update().");
  }
  if (states_->of[&optimizer].stage == Stage::ready) unscale_(optimizer);
  States::PerOptimizer& state = states_->of[&optimizer];
  if (!state.found_inf) optimizer.step();
  state.stage = Stage::stepped;
  return !state.found_inf;
}

void GradScaler::update(std::optional<double> new_scale) {
  if (!options_.enabled()) return;
  const auto is_unscaled = [](const auto& item) {
    return item.second.stage != States::Stage::ready;
  };
  const bool found_inf =
      std::ranges::any_of(states_->of, [](const auto& item) { return item.second.found_inf; });
  if (new_scale) {
    scale_ = *new_scale;
  } else if (std::ranges::none_of(states_->of, is_unscaled)) {
    wrong_use("No inf checks were recorded prior to update.");
  } else if (found_inf) {
    scale_ *= options_.backoff_factor();
    growth_tracker_ = 0;
  } else if (++growth_tracker_ == options_.growth_interval()) {
    const double grown = scale_ * options_.growth_factor();
    if (grown <= std::numeric_limits<float>::max()) scale_ = grown;  // torch keeps it in f32
    growth_tracker_ = 0;
  }
  states_->of.clear();
}

nn::State GradScaler::state_dict() const {
  nn::State state;
  if (!options_.enabled()) return state;
  state.numbers.insert("scale", scale_);
  state.numbers.insert("growth_factor", options_.growth_factor());
  state.numbers.insert("backoff_factor", options_.backoff_factor());
  state.numbers.insert("growth_interval", static_cast<double>(options_.growth_interval()));
  state.numbers.insert("_growth_tracker", static_cast<double>(growth_tracker_));
  return state;
}

void GradScaler::load_state_dict(const nn::State& state) {
  if (!options_.enabled()) return;
  if (state.numbers.is_empty()) {
    wrong_use(
        "The source state dict is empty, possibly because it was saved from a disabled instance "
        "of GradScaler.");
  }
  scale_ = state.numbers["scale"];
  options_.growth_factor(state.numbers["growth_factor"]);
  options_.backoff_factor(state.numbers["backoff_factor"]);
  options_.growth_interval(static_cast<std::int64_t>(state.numbers["growth_interval"]));
  growth_tracker_ = static_cast<std::int64_t>(state.numbers["_growth_tracker"]);
}

DynamicGradScaler::DynamicGradScaler(const DynamicGradScalerOptions& options)
    : options_(options),
      scale_(options.initial_scale()),
      hysteresis_tracker_(options.hysteresis()) {}

void DynamicGradScaler::update(bool found_inf) {
  if (found_inf) {
    growth_tracker_ = 0;
    if (--hysteresis_tracker_ > 0) return;
    scale_ = std::max(scale_ * options_.backoff_factor(), options_.min_scale());
  } else if (++growth_tracker_ == options_.growth_interval()) {
    growth_tracker_ = 0;
    hysteresis_tracker_ = options_.hysteresis();
    scale_ *= options_.growth_factor();
  }
}

nn::State DynamicGradScaler::state_dict() const {
  nn::State state;
  state.numbers.insert("scale", scale_);
  state.numbers.insert("growth_tracker", static_cast<double>(growth_tracker_));
  state.numbers.insert("hysteresis_tracker", static_cast<double>(hysteresis_tracker_));
  return state;
}

void DynamicGradScaler::load_state_dict(const nn::State& state) {
  scale_ = state.numbers["scale"];
  growth_tracker_ = static_cast<std::int64_t>(state.numbers["growth_tracker"]);
  hysteresis_tracker_ = static_cast<std::int64_t>(state.numbers["hysteresis_tracker"]);
}

}  // namespace kernbench::optim
