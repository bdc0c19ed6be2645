#include "runtime/optim/optimizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_set>

#include "runtime/nn/module.h"
#include "runtime/optim/fused_update.h"
#include "runtime/optim/update_rules.h"
#include "runtime/tensor/memory_space.h"
#include "runtime/tensor/tensor_storage.h"

namespace kernbench::optim {

namespace {

// The tensors of a state, in the order of their names.
template <class State>
auto tensors_of(State& state) {
  return std::array{&state.first, &state.second, &state.third};
}

// A tensor beside a parameter.
Tensor full_like(const Tensor& parameter, std::string_view what, double value) {
  const Tensor::Storage& storage = *parameter.storage();
  Tensor made(runtime::make_device_storage(storage.simulation, storage.device, storage.shape,
                                           {.dtype = storage.dtype,
                                            .dp = storage.dp,
                                            .name = fmt::format("{}.{}", storage.name, what)}));
  runtime::fill(*made.storage(), static_cast<float>(value));
  runtime::mark_memory_beside(made, parameter, MemoryKind::optimizer_state);
  return made;
}

// Adagrad's state is there before the first step, as in torch.
template <class Options>
constexpr bool kBeginsAtOnce = std::is_same_v<Options, AdagradOptions>;

// A schedule may leave a rate below 0, as torch's OneCycleLR does after its last step.
void check_rate(double lr) {
  check_number("learning rate", std::abs(lr));
}

template <class Options>
void check_set(Options options) {
  check_rate(options.lr());
  options.lr(std::abs(options.lr()));
  rule_for(options).check(options);
}

void check_group(std::size_t group, std::size_t count) {
  if (group < count) return;
  refuse(
      fmt::format("list index out of range: there is no parameter group {}; there are {}, from "
                  "0 on",
                  group, count));
}

}  // namespace

Optimizer::Optimizer() = default;
Optimizer::~Optimizer() = default;

double Optimizer::initial_lr(std::size_t group) {
  return initial_lrs_.try_emplace(group, lr(group)).first->second;
}

void Optimizer::set_initial_lr(std::size_t group, double lr) {
  check_group(group, group_count());
  check_rate(lr);
  initial_lrs_[group] = lr;
}

std::optional<double> Optimizer::momentum(std::size_t) const {
  return std::nullopt;
}

void Optimizer::set_momentum(std::size_t, double) {
  refuse("optimizer must support momentum with `cycle_momentum` option enabled");
}

void Optimizer::zero_grad(bool set_to_none) {
  nn::zero_grad(parameters(), set_to_none);
}

template <class Options>
OptimizerOf<Options>::~OptimizerOf() = default;

template <class Options>
OptimizerOf<Options>::OptimizerOf(std::vector<ParamGroup<Options>> groups) {
  if (groups.empty()) refuse("optimizer got an empty parameter list");
  for (ParamGroup<Options>& group : groups) add_param_group(std::move(group));
}

template <class Options>
double OptimizerOf<Options>::lr(std::size_t group) const {
  check_group(group, groups_.size());
  return groups_[group].options.lr();
}

template <class Options>
void OptimizerOf<Options>::set_lr(std::size_t group, double lr) {
  check_group(group, groups_.size());
  check_rate(lr);
  groups_[group].options.lr(lr);
}

template <class Options>
std::optional<double> OptimizerOf<Options>::momentum(std::size_t group) const {
  check_group(group, groups_.size());
  const Options& options = groups_[group].options;
  if constexpr (requires { options.betas(); }) {
    return options.betas().first;
  } else if constexpr (requires { options.momentum(); }) {
    return options.momentum();
  } else {
    return std::nullopt;
  }
}

template <class Options>
void OptimizerOf<Options>::set_momentum(std::size_t group, double momentum) {
  check_group(group, groups_.size());
  Options options = groups_[group].options;
  if constexpr (requires { options.betas(); }) {
    options.betas({momentum, options.betas().second});
  } else if constexpr (requires { options.momentum(); }) {
    options.momentum(momentum);
  } else {
    Optimizer::set_momentum(group, momentum);
  }
  check_set(options);
  groups_[group].options = options;
}

// Makes the tensors of a state that these options need and that it has not.
template <class Options>
void OptimizerOf<Options>::begin_state(ParameterState& state, const Tensor& parameter,
                                       const Options& options) {
  double initial = 0;
  if constexpr (std::is_same_v<Options, AdagradOptions>) {
    initial = options.initial_accumulator_value();
  }
  const std::array<bool, 3> needs = rule_for(options).needs(options);
  const auto tensors = tensors_of(state);
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    if (!needs[t] || tensors[t]->defined()) continue;
    *tensors[t] = full_like(parameter, rule_for(options).state[t], initial);
  }
}

namespace {

// False for a parameter that a step skips.  Throws KB-A012 for one that has become shards, whose
// gradients would never come here.
bool has_gradient(std::string_view name, const Tensor& parameter) {
  if (parameter.grad().defined()) return true;
  const auto& memory = parameter.storage()->memory;
  if (memory == nullptr || memory->has_space || memory->deferred != nullptr) return false;
  refuse(
      fmt::format("{}: parameter '{}' {} was sharded after the optimizer was made, and gets no "
                  "gradient: call fully_shard() first, then make the optimizer of "
                  "module->parameters(), which are this rank's shards",
                  name, parameter.name(), to_string(parameter.shape())));
}

}  // namespace

template <class Options>
void OptimizerOf<Options>::step() {
  const auto& rule = rule_for(groups_.front().options);
  std::vector<Update> updates;
  for (const auto& [params, options] : groups_) {
    const std::array<bool, 3> needs = rule.needs(options);
    for (const Tensor& parameter : params) {
      if (!has_gradient(rule.kernel, parameter)) continue;
      ParameterState& state = state_of(parameter);
      const bool is_first = !state.first.defined();
      begin_state(state, parameter, options);
      std::vector<Tensor> kept;
      const auto tensors = tensors_of(state);
      for (std::size_t t = 0; t < tensors.size(); ++t) {
        if (needs[t]) kept.push_back(*tensors[t]);
      }
      updates.push_back({parameter, parameter.grad(), std::move(kept),
                         rule.numbers(options, ++state.step, is_first)});
    }
  }
  update(rule.kernel, std::move(updates), rule.update);
}

template <class Options>
void OptimizerOf<Options>::add_param_group(ParamGroup<Options> group) {
  rule_for(group.options).check(group.options);
  if (group.params.empty()) refuse("optimizer got an empty parameter list");
  std::unordered_set<const Tensor::Storage*> known;
  for (const Tensor& tensor : parameters()) known.insert(tensor.storage().get());
  for (const Tensor& tensor : group.params) {
    runtime::check_on_device(tensor, "an optimizer's parameter");
    if (!tensor.is_leaf()) refuse("can't optimize a non-leaf Tensor");
    if (!known.insert(tensor.storage().get()).second) {
      refuse("some parameters appear in more than one parameter group");
    }
    runtime::mark_memory(tensor, MemoryKind::parameter);
  }
  groups_.push_back(std::move(group));
  if (!kBeginsAtOnce<Options>) return;
  const ParamGroup<Options>& own = groups_.back();
  for (const Tensor& tensor : own.params) begin_state(state_of(tensor), tensor, own.options);
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
    rule_for(options).visit_options(options, [&](std::string_view option, double value, bool) {
      return all.numbers.insert(name(option), value);
    });
    all.numbers.insert(name("params"), static_cast<double>(groups_[g].params.size()));
    for (const Tensor& parameter : groups_[g].params) {
      const ParameterState& kept = state(parameter);
      const std::string prefix = fmt::format("state.{}.", i++);
      if (kept.step > 0 || kBeginsAtOnce<Options>)
        all.numbers.insert(prefix + "step", static_cast<double>(kept.step));
      const auto tensors = tensors_of(kept);
      for (std::size_t t = 0; t < tensors.size(); ++t) {
        if (!tensors[t]->defined()) continue;
        all.tensors.insert(prefix + std::string(rule_for(options).state[t]), *tensors[t]);
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

[[noreturn]] void refuse_missing(std::string_view key, const std::string& path) {
  refuse(
      fmt::format("KeyError: '{}': the state has no '{}'; load what state_dict() of an optimizer "
                  "of this kind has returned",
                  key, path));
}

// The number of steps in a state; 0 unless it has any.
std::int64_t steps_in(const nn::State& state, const std::string& path) {
  const double* const steps = state.numbers.find(path);
  if (steps == nullptr) return 0;
  if (*steps >= 0 && *steps <= 0x1p53 && *steps == std::floor(*steps)) {
    return static_cast<std::int64_t>(*steps);
  }
  refuse(fmt::format("the state's '{}' is {}, and not a number of steps", path, *steps));
}

// Throws KB-A012 unless a state has what these options need of a parameter, and all it has fits.
template <class Options>
void check_state(const nn::State& state, const std::string& prefix, const Tensor& parameter,
                 const Options& options) {
  const auto& rule = rule_for(options);
  const bool has_steps = state.numbers.contains(prefix + "step");
  steps_in(state, prefix + "step");
  const bool has_any = kBeginsAtOnce<Options> || has_steps ||
                       std::ranges::any_of(state.tensors, [&](const auto& of) {
                         return of.key().starts_with(prefix);
                       });
  const std::array<bool, 3> needs = rule.needs(options);
  for (std::size_t t = 0; t < needs.size(); ++t) {
    const std::string path = prefix + std::string(rule.state[t]);
    const Tensor* const source = state.tensors.find(path);
    if (source == nullptr && has_any && needs[t]) refuse_missing(rule.state[t], path);
    if (source == nullptr || source->shape() == parameter.shape()) continue;
    refuse(fmt::format(
        "size mismatch for {}: the state's tensor has shape {}, and the parameter "
        "'{}' has {}",
        path, to_string(source->shape()), parameter.name(), to_string(parameter.shape())));
  }
  const bool counts_steps = !std::is_same_v<Options, SGDOptions>;  // torch's SGD does not
  if (has_any && counts_steps && !has_steps) refuse_missing("step", prefix + "step");
}

}  // namespace

template <class Options>
Options OptimizerOf<Options>::options_in(const nn::State& state, std::size_t group) const {
  Options options = groups_[group].options;
  rule_for(options).visit_options(
      options, [&](std::string_view option, double value, bool has_default) {
        const std::string path = fmt::format("param_groups.{}.{}", group, option);
        const double* const loaded = state.numbers.find(path);
        if (loaded == nullptr && !has_default) refuse_missing(option, path);
        return loaded == nullptr ? value : *loaded;
      });
  check_set(options);
  return options;
}

template <class Options>
void OptimizerOf<Options>::load_state_dict(const nn::State& state) {
  std::vector<std::size_t> counts;
  for (const auto& group : groups_) counts.push_back(group.params.size());
  check_groups(state, counts);
  const auto for_each_parameter = [&](const auto& visit) {
    std::size_t i = 0;
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      for (const Tensor& parameter : groups_[g].params) {
        visit(g, parameter, fmt::format("state.{}.", i++));
      }
    }
  };
  std::vector<Options> options;
  for (std::size_t g = 0; g < groups_.size(); ++g) options.push_back(options_in(state, g));
  for_each_parameter([&](std::size_t g, const Tensor& parameter, const std::string& prefix) {
    check_state(state, prefix, parameter, options[g]);
  });
  for (std::size_t g = 0; g < groups_.size(); ++g) groups_[g].options = options[g];
  for_each_parameter([&](std::size_t g, const Tensor& parameter, const std::string& prefix) {
    ParameterState& kept = state_of(parameter);
    kept.step = steps_in(state, prefix + "step");
    const auto tensors = tensors_of(kept);
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      const std::string_view name = rule_for(options[g]).state[t];
      const Tensor* const source = state.tensors.find(prefix + std::string(name));
      *tensors[t] = source == nullptr ? Tensor() : full_like(parameter, name, 0);
      if (source != nullptr) tensors[t]->copy_(*source);
    }
  });
}

template class OptimizerOf<SGDOptions>;
template class OptimizerOf<AdamOptions>;
template class OptimizerOf<AdamWOptions>;
template class OptimizerOf<RMSpropOptions>;
template class OptimizerOf<AdagradOptions>;

}  // namespace kernbench::optim
