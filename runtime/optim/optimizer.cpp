#include "runtime/optim/optimizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "runtime/nn/module.h"
#include "runtime/optim/fused_update.h"
#include "runtime/tensor/tensor_storage.h"
#include "sim_engine/base/error.h"

namespace kernbench::optim {

namespace {

[[noreturn]] void refuse(const std::string& text) {
  throw CollectiveError("KB-A012", text);
}

void check_number(std::string_view name, double value) {
  if (value >= 0) return;
  refuse(fmt::format("Invalid {}: {}", name, value));
}

void check_options(const SGDOptions& options) {
  check_number("learning rate", options.lr());
  check_number("momentum value", options.momentum());
  check_number("weight_decay value", options.weight_decay());
  if (options.nesterov() && (options.momentum() <= 0 || options.dampening() != 0)) {
    refuse("Nesterov momentum requires a momentum and zero dampening");
  }
}

template <int decay>
void check_options(const AdamOptionsWith<decay>& options) {
  check_number("learning rate", options.lr());
  check_number("epsilon value", options.eps());
  check_number("weight_decay value", options.weight_decay());
  const auto check_beta = [](int index, double beta) {
    if (!(beta >= 0 && beta < 1)) {
      refuse(fmt::format("Invalid beta parameter at index {}: {}", index, beta));
    }
  };
  check_beta(0, options.betas().first);
  check_beta(1, options.betas().second);
}

Tensor zeros_like(const Tensor& parameter, std::string_view what) {
  const Tensor::Storage& storage = *parameter.storage();
  Tensor made(runtime::make_device_storage(storage.simulation, storage.device, storage.shape,
                                           {.dtype = storage.dtype,
                                            .dp = storage.dp,
                                            .name = fmt::format("{}.{}", storage.name, what)}));
  runtime::fill(*made.storage(), 0);
  return made;
}

void update_sgd(tl::Context&, const UpdateNumbers& numbers, UpdateBlocks& of) {
  const auto [lr, momentum, undampened, decay, nesterov, is_first, none, no] = numbers;
  tl::Tensor d = of.gradient;
  if (decay != 0) d = d + of.parameter * decay;
  if (momentum != 0) {
    tl::Tensor& buffer = of.state[0];
    buffer = is_first != 0 ? d : buffer * momentum + d * undampened;
    d = nesterov != 0 ? d + buffer * momentum : buffer;
  }
  of.parameter = of.parameter - d * lr;
}

// decay: what is added to the gradient (Adam); shrink: what the parameter is multiplied with.
void update_adam(tl::Context& tl, const UpdateNumbers& numbers, UpdateBlocks& of) {
  const auto [step_size, root_of_correction, first, second, eps, decay, shrink, none] = numbers;
  tl::Tensor g = of.gradient;
  if (decay != 0) g = g + of.parameter * decay;
  if (shrink != 1) of.parameter = of.parameter * shrink;
  tl::Tensor& m = of.state[0];
  tl::Tensor& v = of.state[1];
  m = m * first + g * (1 - first);
  v = v * second + g * (1 - second) * g;
  of.parameter = of.parameter - m * step_size / (tl.sqrt(v) / root_of_correction + eps);
}

template <int decay>
Update adam_update(const Tensor& parameter, ParameterState& state,
                   const AdamOptionsWith<decay>& options) {
  if (state.step++ == 0) {
    state.first = zeros_like(parameter, "exp_avg");
    state.second = zeros_like(parameter, "exp_avg_sq");
  }
  const auto step = static_cast<double>(state.step);
  const auto [first, second] = options.betas();
  const double correction = 1 - std::pow(first, step);
  const double root_of_correction = std::sqrt(1 - std::pow(second, step));
  const bool is_decoupled = std::is_same_v<AdamOptionsWith<decay>, AdamWOptions>;
  return {parameter,
          parameter.grad(),
          {state.first, state.second},
          {options.lr() / correction, root_of_correction, first, second, options.eps(),
           is_decoupled ? 0 : options.weight_decay(),
           is_decoupled ? 1 - options.lr() * options.weight_decay() : 1}};
}

}  // namespace

void Optimizer::zero_grad(bool set_to_none) {
  nn::zero_grad(parameters(), set_to_none);
}

template <class Options>
OptimizerOf<Options>::OptimizerOf(std::vector<ParamGroup<Options>> groups) {
  for (ParamGroup<Options>& group : groups) add_param_group(std::move(group));
}

template <class Options>
void OptimizerOf<Options>::add_param_group(ParamGroup<Options> group) {
  check_options(group.options);
  if (group.params.empty()) refuse("optimizer got an empty parameter list");
  const std::vector<Tensor> known = parameters();
  for (std::size_t i = 0; i < group.params.size(); ++i) {
    const Tensor& tensor = group.params[i];
    runtime::check_on_device(tensor, "an optimizer's parameter");
    if (!tensor.is_leaf()) refuse("can't optimize a non-leaf Tensor");
    const auto is_tensor = [&](const Tensor& other) { return other.storage() == tensor.storage(); };
    const auto own = std::span(group.params).first(i);
    if (std::ranges::any_of(known, is_tensor) || std::ranges::any_of(own, is_tensor)) {
      refuse("some parameters appear in more than one parameter group");
    }
  }
  groups_.push_back(std::move(group));
}

template <class Options>
std::vector<Tensor> OptimizerOf<Options>::parameters() const {
  std::vector<Tensor> all;
  for (const auto& group : groups_) {
    all.insert(all.end(), group.params.begin(), group.params.end());
  }
  return all;
}

template <class Options>
const ParameterState& OptimizerOf<Options>::state(const Tensor& parameter) const {
  static const ParameterState kNone;
  const auto found = states_.find(parameter.storage().get());
  return found == states_.end() ? kNone : found->second;
}

template class OptimizerOf<SGDOptions>;
template class OptimizerOf<AdamOptions>;
template class OptimizerOf<AdamWOptions>;

SGD::SGD(std::vector<Tensor> params, const SGDOptions& options)
    : SGD(std::vector{ParamGroup<SGDOptions>{std::move(params), options}}) {}
SGD::SGD(std::vector<ParamGroup<SGDOptions>> groups) : OptimizerOf(std::move(groups)) {}

void SGD::step() {
  std::vector<Update> updates;
  for (const auto& [params, options] : param_groups()) {
    for (const Tensor& parameter : params) {
      if (!parameter.grad().defined()) continue;
      ParameterState& state = state_of(parameter);
      const bool has_momentum = options.momentum() != 0;
      const bool is_first = has_momentum && !state.first.defined();
      if (is_first) state.first = zeros_like(parameter, "momentum_buffer");
      ++state.step;
      updates.push_back(
          {parameter,
           parameter.grad(),
           has_momentum ? std::vector{state.first} : std::vector<Tensor>(),
           {options.lr(), options.momentum(), 1 - options.dampening(), options.weight_decay(),
            options.nesterov() ? 1.0 : 0.0, is_first ? 1.0 : 0.0}});
    }
  }
  update("SGD.step", std::move(updates), update_sgd);
}

namespace {

template <class Options, class State>
void step_adam(std::string_view name, const std::vector<ParamGroup<Options>>& groups,
               const State& state_of) {
  std::vector<Update> updates;
  for (const auto& [params, options] : groups) {
    for (const Tensor& parameter : params) {
      if (!parameter.grad().defined()) continue;
      updates.push_back(adam_update(parameter, state_of(parameter), options));
    }
  }
  update(name, std::move(updates), update_adam);
}

}  // namespace

Adam::Adam(std::vector<Tensor> params, const AdamOptions& options)
    : Adam(std::vector{ParamGroup<AdamOptions>{std::move(params), options}}) {}
Adam::Adam(std::vector<ParamGroup<AdamOptions>> groups) : OptimizerOf(std::move(groups)) {}
void Adam::step() {
  step_adam("Adam.step", param_groups(),
            [this](const Tensor& parameter) -> ParameterState& { return state_of(parameter); });
}

AdamW::AdamW(std::vector<Tensor> params, const AdamWOptions& options)
    : AdamW(std::vector{ParamGroup<AdamWOptions>{std::move(params), options}}) {}
AdamW::AdamW(std::vector<ParamGroup<AdamWOptions>> groups) : OptimizerOf(std::move(groups)) {}
void AdamW::step() {
  step_adam("AdamW.step", param_groups(),
            [this](const Tensor& parameter) -> ParameterState& { return state_of(parameter); });
}

}  // namespace kernbench::optim
