#include "runtime/optim/update_rules.h"

#include <fmt/format.h>

#include <cmath>

#include "sim_engine/base/error.h"

namespace kernbench::optim {

void refuse(const std::string& text) {
  throw CollectiveError("KB-A012", text);
}

void check_number(std::string_view name, double value) {
  if (value >= 0 && std::isfinite(value)) return;
  refuse(fmt::format("Invalid {}: {}; a finite number of at least 0 is wanted", name, value));
}

namespace {

double sign_of(bool maximize) {
  return maximize ? -1 : 1;
}

// The gradient of what is minimized, with weight decay.
tl::Tensor descent(const UpdateBlocks& of, double sign, double decay) {
  const tl::Tensor g = sign < 0 ? -of.gradient : of.gradient;
  return decay != 0 ? g + of.parameter * decay : g;
}

// C++ leaves the order of operands open, and each is a command of the kernel: what is added, or
// divides, is an argument and so is computed before.
tl::Tensor add_to_share(const tl::Tensor& average, double share, const tl::Tensor& added) {
  return average * share + added;
}
tl::Tensor divide_scaled(const tl::Tensor& x, double scale, const tl::Tensor& divisor) {
  return x * scale / divisor;
}

void check_sgd(const SGDOptions& options) {
  check_number("learning rate", options.lr());
  check_number("momentum value", options.momentum());
  check_number("weight_decay value", options.weight_decay());
  if (!std::isfinite(options.dampening())) {
    refuse(fmt::format("Invalid dampening value: {}", options.dampening()));
  }
  if (options.nesterov() && (options.momentum() <= 0 || options.dampening() != 0)) {
    refuse("Nesterov momentum requires a momentum and zero dampening");
  }
}

void visit_sgd(SGDOptions& of, const OptionVisit& visit) {
  of.lr(visit("lr", of.lr(), false));
  of.momentum(visit("momentum", of.momentum(), false));
  of.dampening(visit("dampening", of.dampening(), false));
  of.weight_decay(visit("weight_decay", of.weight_decay(), false));
  of.nesterov(visit("nesterov", of.nesterov(), true) != 0);
  of.maximize(visit("maximize", of.maximize(), true) != 0);
}

std::array<bool, 3> sgd_needs(const SGDOptions& options) {
  return {options.momentum() != 0};
}

UpdateNumbers sgd_numbers(const SGDOptions& options, std::int64_t, bool is_first) {
  return {options.lr(),
          options.momentum(),
          1 - options.dampening(),
          options.weight_decay(),
          options.nesterov() ? 1.0 : 0.0,
          is_first ? 1.0 : 0.0,
          sign_of(options.maximize())};
}

void update_sgd(tl::Context&, const UpdateNumbers& numbers, UpdateBlocks& of) {
  const auto [lr, momentum, undampened, decay, nesterov, is_first, sign, none] = numbers;
  tl::Tensor d = descent(of, sign, decay);
  if (momentum != 0) {
    tl::Tensor& buffer = of.state[0];
    buffer = is_first != 0 ? d : add_to_share(buffer, momentum, d * undampened);
    d = nesterov != 0 ? d + buffer * momentum : buffer;
  }
  of.parameter = of.parameter - d * lr;
}

template <int decay>
void check_adam(const AdamOptionsWith<decay>& options) {
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

template <int decay>
void visit_adam(AdamOptionsWith<decay>& of, const OptionVisit& visit) {
  of.lr(visit("lr", of.lr(), false));
  const double first = visit("beta1", of.betas().first, false);
  of.betas({first, visit("beta2", of.betas().second, false)});
  of.eps(visit("eps", of.eps(), false));
  of.weight_decay(visit("weight_decay", of.weight_decay(), false));
  of.amsgrad(visit("amsgrad", of.amsgrad(), true) != 0);
  of.maximize(visit("maximize", of.maximize(), true) != 0);
}

template <int decay>
UpdateNumbers adam_numbers(const AdamOptionsWith<decay>& options, std::int64_t steps, bool) {
  const auto step = static_cast<double>(steps);
  const auto [first, second] = options.betas();
  const double correction = 1 - std::pow(first, step);
  const double root_of_correction = std::sqrt(1 - std::pow(second, step));
  const bool is_decoupled = std::is_same_v<AdamOptionsWith<decay>, AdamWOptions>;
  return {options.lr() / correction,
          root_of_correction,
          first,
          second,
          options.eps(),
          is_decoupled ? 0 : options.weight_decay(),
          is_decoupled ? 1 - options.lr() * options.weight_decay() : 1,
          sign_of(options.maximize())};
}

template <int decay>
std::array<bool, 3> adam_needs(const AdamOptionsWith<decay>& options) {
  return {true, true, options.amsgrad()};
}

// decay: what is added to the gradient (Adam); shrink: what the parameter is multiplied with.
void update_adam(tl::Context& tl, const UpdateNumbers& numbers, UpdateBlocks& of) {
  const auto [step_size, root_of_correction, first, second, eps, decay, shrink, sign] = numbers;
  const tl::Tensor g = descent(of, sign, decay);
  if (shrink != 1) of.parameter = of.parameter * shrink;
  tl::Tensor& m = of.state[0];
  tl::Tensor& v = of.state[1];
  m = add_to_share(m, first, g * (1 - first));
  v = add_to_share(v, second, g * (1 - second) * g);
  tl::Tensor squares = v;
  if (of.state.size() > 2) squares = of.state[2] = tl.maximum(of.state[2], v);  // amsgrad
  of.parameter =
      of.parameter - divide_scaled(m, step_size, tl.sqrt(squares) / root_of_correction + eps);
}

void check_rmsprop(const RMSpropOptions& options) {
  check_number("learning rate", options.lr());
  check_number("epsilon value", options.eps());
  check_number("momentum value", options.momentum());
  check_number("weight_decay value", options.weight_decay());
  check_number("alpha value", options.alpha());
}

void visit_rmsprop(RMSpropOptions& of, const OptionVisit& visit) {
  of.lr(visit("lr", of.lr(), false));
  of.alpha(visit("alpha", of.alpha(), false));
  of.eps(visit("eps", of.eps(), false));
  of.weight_decay(visit("weight_decay", of.weight_decay(), false));
  of.momentum(visit("momentum", of.momentum(), true));
  of.centered(visit("centered", of.centered(), true) != 0);
  of.maximize(visit("maximize", of.maximize(), true) != 0);
}

std::array<bool, 3> rmsprop_needs(const RMSpropOptions& options) {
  return {true, options.centered(), options.momentum() > 0};
}

UpdateNumbers rmsprop_numbers(const RMSpropOptions& options, std::int64_t, bool) {
  return {options.lr(),
          options.alpha(),
          options.eps(),
          options.weight_decay(),
          options.momentum(),
          options.centered() ? 1.0 : 0.0,
          sign_of(options.maximize())};
}

void update_rmsprop(tl::Context& tl, const UpdateNumbers& numbers, UpdateBlocks& of) {
  const auto [lr, alpha, eps, decay, momentum, centered, sign, none] = numbers;
  const tl::Tensor g = descent(of, sign, decay);
  tl::Tensor& squares = of.state[0];
  squares = add_to_share(squares, alpha, g * (1 - alpha) * g);
  tl::Tensor spread = squares;
  if (centered != 0) {
    tl::Tensor& mean = of.state[1];
    mean = add_to_share(mean, alpha, g * (1 - alpha));
    spread = squares - mean * mean;
  }
  const tl::Tensor average = tl.sqrt(spread) + eps;
  if (momentum > 0) {
    tl::Tensor& buffer = of.state.back();
    buffer = add_to_share(buffer, momentum, g / average);
    of.parameter = of.parameter - buffer * lr;
  } else {
    of.parameter = of.parameter - g * lr / average;
  }
}

void check_adagrad(const AdagradOptions& options) {
  check_number("learning rate", options.lr());
  check_number("lr_decay value", options.lr_decay());
  check_number("weight_decay value", options.weight_decay());
  check_number("initial_accumulator_value value", options.initial_accumulator_value());
  check_number("epsilon value", options.eps());
}

void visit_adagrad(AdagradOptions& of, const OptionVisit& visit) {
  of.lr(visit("lr", of.lr(), false));
  of.lr_decay(visit("lr_decay", of.lr_decay(), false));
  of.eps(visit("eps", of.eps(), false));
  of.weight_decay(visit("weight_decay", of.weight_decay(), false));
  of.initial_accumulator_value(
      visit("initial_accumulator_value", of.initial_accumulator_value(), true));
  of.maximize(visit("maximize", of.maximize(), true) != 0);
}

std::array<bool, 3> adagrad_needs(const AdagradOptions&) {
  return {true};
}

UpdateNumbers adagrad_numbers(const AdagradOptions& options, std::int64_t step, bool) {
  return {options.lr() / (1 + static_cast<double>(step - 1) * options.lr_decay()), options.eps(),
          options.weight_decay(), sign_of(options.maximize())};
}

void update_adagrad(tl::Context& tl, const UpdateNumbers& numbers, UpdateBlocks& of) {
  const tl::Tensor g = descent(of, numbers[3], numbers[2]);
  tl::Tensor& sum = of.state[0];
  sum = sum + g * g;
  of.parameter = of.parameter - divide_scaled(g, numbers[0], tl.sqrt(sum) + numbers[1]);
}

template <int decay>
constexpr UpdateRule<AdamOptionsWith<decay>> adam_rule(std::string_view kernel) {
  return {kernel,     {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"},
          check_adam, visit_adam,
          adam_needs, adam_numbers,
          update_adam};
}

constexpr UpdateRule<SGDOptions> kSgd{"SGD.step", {"momentum_buffer"}, check_sgd, visit_sgd,
                                      sgd_needs,  sgd_numbers,         update_sgd};
constexpr auto kAdam = adam_rule<0>("Adam.step");
constexpr auto kAdamW = adam_rule<1>("AdamW.step");
constexpr UpdateRule<RMSpropOptions> kRmsprop{
    "RMSprop.step", {"square_avg", "grad_avg", "momentum_buffer"},
    check_rmsprop,  visit_rmsprop,
    rmsprop_needs,  rmsprop_numbers,
    update_rmsprop};
constexpr UpdateRule<AdagradOptions> kAdagrad{"Adagrad.step", {"sum"},       check_adagrad,
                                              visit_adagrad,  adagrad_needs, adagrad_numbers,
                                              update_adagrad};

}  // namespace

const UpdateRule<SGDOptions>& rule_for(const SGDOptions&) {
  return kSgd;
}
const UpdateRule<AdamOptions>& rule_for(const AdamOptions&) {
  return kAdam;
}
const UpdateRule<AdamWOptions>& rule_for(const AdamWOptions&) {
  return kAdamW;
}
const UpdateRule<RMSpropOptions>& rule_for(const RMSpropOptions&) {
  return kRmsprop;
}
const UpdateRule<AdagradOptions>& rule_for(const AdagradOptions&) {
  return kAdagrad;
}

}  // namespace kernbench::optim
