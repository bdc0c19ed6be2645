#include "runtime/optim/optimizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <string_view>
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

// Torch's names of the tensors in a ParameterState.
template <class Options>
constexpr std::array<std::string_view, 3> kNames{"exp_avg", "exp_avg_sq", "max_exp_avg_sq"};
template <>
constexpr std::array<std::string_view, 3> kNames<SGDOptions>{"momentum_buffer"};

// Calls visit(name, value) for each option; visit returns what the option shall be.
template <class Visit>
void visit_options(SGDOptions& of, const Visit& visit) {
  of.lr(visit("lr", of.lr()));
  of.momentum(visit("momentum", of.momentum()));
  of.dampening(visit("dampening", of.dampening()));
  of.weight_decay(visit("weight_decay", of.weight_decay()));
  of.nesterov(visit("nesterov", of.nesterov()) != 0);
  of.maximize(visit("maximize", of.maximize()) != 0);
}
template <int decay, class Visit>
void visit_options(AdamOptionsWith<decay>& of, const Visit& visit) {
  of.lr(visit("lr", of.lr()));
  of.betas({visit("beta1", of.betas().first), visit("beta2", of.betas().second)});
  of.eps(visit("eps", of.eps()));
  of.weight_decay(visit("weight_decay", of.weight_decay()));
  of.amsgrad(visit("amsgrad", of.amsgrad()) != 0);
  of.maximize(visit("maximize", of.maximize()) != 0);
}

// The tensors of a state, in the order of their names.
template <class State>
auto tensors_of(State& state) {
  return std::array{&state.first, &state.second, &state.third};
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
  const auto [lr, momentum, undampened, decay, nesterov, is_first, sign, none] = numbers;
  tl::Tensor d = sign < 0 ? -of.gradient : of.gradient;
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
  const auto [step_size, root_of_correction, first, second, eps, decay, shrink, sign] = numbers;
  tl::Tensor g = sign < 0 ? -of.gradient : of.gradient;
  if (decay != 0) g = g + of.parameter * decay;
  if (shrink != 1) of.parameter = of.parameter * shrink;
  tl::Tensor& m = of.state[0];
  tl::Tensor& v = of.state[1];
  m = m * first + g * (1 - first);
  v = v * second + g * (1 - second) * g;
  tl::Tensor squares = v;
  if (of.state.size() > 2) squares = of.state[2] = tl.maximum(of.state[2], v);  // amsgrad
  of.parameter = of.parameter - m * step_size / (tl.sqrt(squares) / root_of_correction + eps);
}

template <int decay>
Update adam_update(const Tensor& parameter, ParameterState& state,
                   const AdamOptionsWith<decay>& options) {
  if (state.step++ == 0) {
    state.first = zeros_like(parameter, kNames<AdamOptions>[0]);
    state.second = zeros_like(parameter, kNames<AdamOptions>[1]);
    if (options.amsgrad()) state.third = zeros_like(parameter, kNames<AdamOptions>[2]);
  }
  const auto step = static_cast<double>(state.step);
  const auto [first, second] = options.betas();
  const double correction = 1 - std::pow(first, step);
  const double root_of_correction = std::sqrt(1 - std::pow(second, step));
  const bool is_decoupled = std::is_same_v<AdamOptionsWith<decay>, AdamWOptions>;
  std::vector<Tensor> kept{state.first, state.second};
  if (options.amsgrad()) kept.push_back(state.third);
  return {parameter,
          parameter.grad(),
          std::move(kept),
          {options.lr() / correction, root_of_correction, first, second, options.eps(),
           is_decoupled ? 0 : options.weight_decay(),
           is_decoupled ? 1 - options.lr() * options.weight_decay() : 1,
           options.maximize() ? -1.0 : 1.0}};
}

}  // namespace

Optimizer::Optimizer() = default;
Optimizer::~Optimizer() = default;

double Optimizer::initial_lr(std::size_t group) {
  return initial_lrs_.try_emplace(group, lr(group)).first->second;
}

void Optimizer::zero_grad(bool set_to_none) {
  nn::zero_grad(parameters(), set_to_none);
}

template <class Options>
OptimizerOf<Options>::~OptimizerOf() = default;

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

template <class Options>
void OptimizerOf<Options>::replace_parameter(const Tensor& parameter, const Tensor& by) {
  for (auto& group : groups_) {
    for (Tensor& own : group.params) {
      if (own.storage() != parameter.storage()) continue;
      const auto node = states_.extract(own.storage().get());
      if (!node.empty()) states_[by.storage().get()] = node.mapped();
      own = by;
      return;
    }
  }
  refuse("replace_parameter: '" + parameter.name() + "' is no parameter of this optimizer");
}

template <class Options>
nn::State OptimizerOf<Options>::state_dict() const {
  nn::State all;
  std::size_t i = 0;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    const auto name = [g](std::string_view what) {
      return fmt::format("param_groups.{}.{}", g, what);
    };
    Options options = groups_[g].options;
    visit_options(options, [&](std::string_view option, double value) {
      return all.numbers.insert(name(option), value);
    });
    all.numbers.insert(name("params"), static_cast<double>(groups_[g].params.size()));
    for (const Tensor& parameter : groups_[g].params) {
      const ParameterState& kept = state(parameter);
      const std::string prefix = fmt::format("state.{}.", i++);
      if (kept.step > 0) all.numbers.insert(prefix + "step", static_cast<double>(kept.step));
      const auto tensors = tensors_of(kept);
      for (std::size_t t = 0; t < tensors.size(); ++t) {
        if (!tensors[t]->defined()) continue;
        all.tensors.insert(prefix + std::string(kNames<Options>[t]), *tensors[t]);
      }
    }
  }
  return all;
}

namespace {

// Throws KB-A012 unless the groups of a state have these numbers of parameters.
void check_groups(const nn::State& state, const std::vector<std::size_t>& counts) {
  const auto params = [](std::size_t g) { return fmt::format("param_groups.{}.params", g); };
  const bool has_as_many = !state.numbers.contains(params(counts.size())) &&
                           (counts.empty() || state.numbers.contains(params(counts.size() - 1)));
  if (!has_as_many) refuse("loaded state dict has a different number of parameter groups");
  for (std::size_t g = 0; g < counts.size(); ++g) {
    if (state.numbers[params(g)] == static_cast<double>(counts[g])) continue;
    refuse(
        "loaded state dict contains a parameter group that doesn't match the size of "
        "optimizer's group");
  }
}

}  // namespace

template <class Options>
void OptimizerOf<Options>::load_state_dict(const nn::State& state) {
  std::vector<std::size_t> counts;
  for (const auto& group : groups_) counts.push_back(group.params.size());
  check_groups(state, counts);
  std::size_t i = 0;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    visit_options(groups_[g].options, [&](std::string_view option, double value) {
      const double* const loaded = state.numbers.find(fmt::format("param_groups.{}.{}", g, option));
      return loaded == nullptr ? value : *loaded;
    });
    for (const Tensor& parameter : groups_[g].params) {
      const std::string prefix = fmt::format("state.{}.", i++);
      ParameterState& kept = state_of(parameter);
      const double* const step = state.numbers.find(prefix + "step");
      kept.step = step == nullptr ? 0 : static_cast<std::int64_t>(*step);
      const auto tensors = tensors_of(kept);
      for (std::size_t t = 0; t < tensors.size(); ++t) {
        const Tensor* const source = state.tensors.find(prefix + std::string(kNames<Options>[t]));
        *tensors[t] = source == nullptr ? Tensor() : zeros_like(parameter, kNames<Options>[t]);
        if (source != nullptr) tensors[t]->copy_(*source);
      }
    }
  }
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
      if (is_first) state.first = zeros_like(parameter, kNames<SGDOptions>[0]);
      ++state.step;
      updates.push_back({parameter,
                         parameter.grad(),
                         has_momentum ? std::vector{state.first} : std::vector<Tensor>(),
                         {options.lr(), options.momentum(), 1 - options.dampening(),
                          options.weight_decay(), options.nesterov() ? 1.0 : 0.0,
                          is_first ? 1.0 : 0.0, options.maximize() ? -1.0 : 1.0}});
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
