// Tests RMSprop, Adagrad and OneCycleLR against 1,000 steps of the real torch
// (test/golden/torch_modules.py).

#include <fstream>
#include <sstream>

#include "runtime/optim/optimizer.h"
#include "test/runtime/functional/operators_under_test.h"

namespace kernbench::test::torch_optimizers_test {
namespace {

using optim::AdagradOptions;
using optim::RMSpropOptions;
using Make = std::function<std::unique_ptr<optim::Optimizer>(const Tensor& w)>;

template <class Optimizer, class Options>
Make maker(const Options& options) {
  return
      [options](const Tensor& w) { return std::make_unique<Optimizer>(std::vector{w}, options); };
}

// The numbers of "KIND NAME t ..." by t.
std::map<int, std::vector<double>> torch_figures(const std::string& kind, const std::string& name) {
  std::ifstream file(KERNBENCH_ROOT "/test/golden/torch_modules.txt");
  std::map<int, std::vector<double>> figures;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string its_kind;
    std::string its_name;
    int t = 0;
    words >> its_kind >> its_name >> t;
    if (its_kind != kind || its_name != name) continue;
    for (double number = 0; words >> number;) figures[t].push_back(number);
  }
  REQUIRE(!figures.empty());
  return figures;
}

Tensor scales(OperatorsUnderTest& dut, const DPPolicy& dp) {
  return dut.tensor({6}, {0.25F, 0.5F, 0.75F, 1, 1.25F, 1.5F}, dp);
}

TEST_CASE("RMSprop and Adagrad step as torch's do, 1,000 times", "[optim]") {
  const auto [name, make] =
      GENERATE(table<std::string, Make>({
          {"rmsprop", maker<optim::RMSprop>(RMSpropOptions())},
          {"rmsprop_alpha",
           maker<optim::RMSprop>(RMSpropOptions(0.005).alpha(0.9).eps(1e-4).weight_decay(0.01))},
          {"rmsprop_momentum", maker<optim::RMSprop>(RMSpropOptions(0.001).momentum(0.9))},
          {"rmsprop_centered", maker<optim::RMSprop>(RMSpropOptions(0.002).centered(true))},
          {"rmsprop_all", maker<optim::RMSprop>(RMSpropOptions(0.001)
                                                    .alpha(0.75)
                                                    .eps(1e-3)
                                                    .momentum(0.5)
                                                    .weight_decay(0.1)
                                                    .centered(true)
                                                    .maximize(true))},
          {"adagrad", maker<optim::Adagrad>(AdagradOptions(0.1))},
          {"adagrad_all", maker<optim::Adagrad>(AdagradOptions(0.25)
                                                    .lr_decay(0.01)
                                                    .weight_decay(0.05)
                                                    .initial_accumulator_value(0.5)
                                                    .eps(1e-4))},
          {"adagrad_maximize", maker<optim::Adagrad>(AdagradOptions(0.001).maximize(true))},
      }));
  INFO(name);
  OperatorsUnderTest dut;
  const DPPolicy dp = on_pes(kRow);
  const Tensor scale = scales(dut, dp);
  const Tensor w = dut.tensor({6}, {-0.5F, -0.25F, 0, 0.25F, 0.5F, 0.75F}, dp).requires_grad_();
  std::vector<Tensor> targets;  // they repeat after 11 steps
  for (int t = 0; t < 11; ++t) {
    Floats target;
    for (int i = 0; i < 6; ++i) target.push_back(static_cast<float>((3 * t + 5 * i) % 11 - 5) / 4);
    targets.push_back(dut.tensor({6}, target, dp));
  }
  const auto optimizer = make(w);
  const auto figures = torch_figures("step", name);
  for (int t = 0; t < 1000; ++t) {
    w.mutable_grad() = (w.detach() - targets[static_cast<std::size_t>(t % 11)]) * scale;
    optimizer->step();
    const auto wanted = figures.find(t + 1);
    if (wanted == figures.end()) continue;
    const std::vector<double> is = w.to_vector<double>();
    for (std::size_t i = 0; i < 6; ++i) {
      INFO(t + 1 << " steps, element " << i);
      // Elements are of the order of 1, and torch's vector units fuse products and sums.
      CHECK(std::abs(is[i] - wanted->second[i]) <= 2e-6);
    }
  }
}

TEST_CASE("their states are torch's, and go on where they were saved", "[optim]") {
  OperatorsUnderTest dut;
  const Tensor w = dut.tensor({2}, {1, 2}).requires_grad_();
  const Tensor g = dut.tensor({2}, {0.5F, -1});
  const auto check = [&](optim::Optimizer& from, optim::Optimizer& to, const Tensor& other,
                         const std::vector<std::string>& names) {
    w.mutable_grad() = g;
    from.step();
    const nn::State state = from.state_dict();
    CHECK(state.tensors.keys() == names);
    CHECK(state.numbers["state.0.step"] == 1);
    other.detach().copy_(w.detach());
    to.load_state_dict(state);
    w.mutable_grad() = g;
    from.step();
    other.mutable_grad() = g;
    to.step();
    CHECK(other.to_vector() == w.to_vector());
    CHECK(to.state_dict().numbers.keys() == from.state_dict().numbers.keys());
  };
  const Tensor other = dut.tensor({2}, {0, 0}).requires_grad_();
  optim::RMSprop rms({w}, RMSpropOptions().centered(true).momentum(0.5));
  optim::RMSprop of_rms({other});
  check(rms, of_rms, other, {"state.0.square_avg", "state.0.grad_avg", "state.0.momentum_buffer"});
  optim::Adagrad ada({w}, AdagradOptions().initial_accumulator_value(3));
  CHECK(ada.state_dict().tensors["state.0.sum"].to_vector() == Floats{3, 3});
  optim::Adagrad of_ada({other});
  check(ada, of_ada, other, {"state.0.sum"});
}

std::unique_ptr<optim::Optimizer> optimizer_named(const std::string& name, const Tensor& w) {
  if (name == "SGD") return std::make_unique<optim::SGD>(std::vector{w}, 0.1);
  if (name == "Adam") return std::make_unique<optim::Adam>(std::vector{w}, 0.1);
  if (name == "RMSprop") return std::make_unique<optim::RMSprop>(std::vector{w}, 0.1);
  return std::make_unique<optim::Adagrad>(std::vector{w}, 0.1);
}

TEST_CASE("OneCycleLR sets torch's rates and momenta, 1,000 times", "[optim]") {
  struct Case {
    std::string name;
    std::string optimizer;
    optim::OneCycleLROptions options;
  };
  const std::vector<Case> cases = {
      {"one_cycle", "SGD", {.max_lr = 0.1, .total_steps = 1000}},
      {"one_cycle_epochs",
       "SGD",
       {.max_lr = 0.3,
        .epochs = 10,
        .steps_per_epoch = 100,
        .pct_start = 0.25,
        .anneal_strategy = "linear",
        .base_momentum = 0.8,
        .max_momentum = 0.9,
        .div_factor = 10,
        .final_div_factor = 100}},
      {"one_cycle_three_phase", "Adam", {.max_lr = 0.01, .total_steps = 1000, .three_phase = true}},
      {"one_cycle_three_linear",
       "RMSprop",
       {.max_lr = 0.02,
        .total_steps = 999,
        .pct_start = 0.4,
        .anneal_strategy = "linear",
        .three_phase = true}},
      {"one_cycle_no_momentum",
       "Adagrad",
       {.max_lr = 0.5, .total_steps = 1000, .pct_start = 0, .cycle_momentum = false}}};
  OperatorsUnderTest dut;
  const Tensor w = dut.tensor({1}, {1}).requires_grad_();
  for (const auto& [name, optimizer, options] : cases) {
    const auto made = optimizer_named(optimizer, w);
    optim::OneCycleLR schedule(*made, options);
    int checked = 0;
    const auto figures = torch_figures("rate", name);
    for (int t = 0; t <= figures.rbegin()->first; ++t) {
      if (t > 0) schedule.step();
      const auto wanted = figures.find(t);
      if (wanted == figures.end()) continue;
      ++checked;
      INFO(name << " step " << t);
      CHECK(made->lr(0) == wanted->second[0]);
      CHECK(made->momentum(0).value_or(0) == wanted->second[1]);
    }
    CHECK(checked >= 28);
    CHECK_THAT(refusal([&] { schedule.step(); }),
               Says("KB-A012", "Tried to step", "The specified number of total steps is"));
  }
}

TEST_CASE("OneCycleLR takes a rate for each group, and refuses what gives none", "[optim]") {
  OperatorsUnderTest dut;
  const Tensor a = dut.tensor({1}, {1}).requires_grad_();
  const Tensor b = dut.tensor({1}, {1}).requires_grad_();
  optim::SGD sgd({{{a}, optim::SGDOptions(1)}, {{b}, optim::SGDOptions(1)}});
  optim::OneCycleLR schedule(sgd, {.max_lr = {0.5, 0.25}, .total_steps = 10});
  CHECK(std::abs(schedule.get_last_lr()[0] - 0.02) <= 1e-15);
  CHECK(std::abs(schedule.get_last_lr()[1] - 0.01) <= 1e-15);
  CHECK(sgd.initial_lr(1) == 0.25 / 25);
  CHECK(sgd.momentum(1) == 0.95);
  const auto text = [&](const optim::OneCycleLROptions& options) {
    return refusal([&] { optim::OneCycleLR(sgd, options); });
  };
  CHECK_THAT(text({.max_lr = 1}), Says("KB-A012", "You must define either total_steps OR"));
  CHECK_THAT(text({.max_lr = 1, .total_steps = 0}),
             Says("KB-A012", "Expected positive integer total_steps, but got 0"));
  CHECK_THAT(text({.max_lr = 1, .epochs = 2, .steps_per_epoch = -1}),
             Says("KB-A012", "Expected positive integer steps_per_epoch, but got -1"));
  CHECK_THAT(text({.max_lr = 1, .total_steps = 9, .pct_start = 1.5}),
             Says("KB-A012", "Expected float between 0 and 1 pct_start, but got 1.5"));
  CHECK_THAT(text({.max_lr = 1, .total_steps = 9, .anneal_strategy = "cosine"}),
             Says("KB-A012", "anneal_strategy must by one of 'cos' or 'linear'"));
  CHECK_THAT(text({.max_lr = {1, 2, 3}, .total_steps = 9}),
             Says("KB-A012", "expected 2 values for max_lr, got 3"));
  CHECK_THAT(text({.max_lr = 1, .total_steps = 9, .div_factor = 0}), Says("KB-A012", "div_factor"));
  optim::Adagrad adagrad({a});
  CHECK_THAT(refusal([&] { optim::OneCycleLR(adagrad, {.max_lr = 1, .total_steps = 9}); }),
             Says("KB-A012", "optimizer must support momentum with `cycle_momentum`"));
  CHECK(adagrad.lr(0) == 0.01);
}

}  // namespace
}  // namespace kernbench::test::torch_optimizers_test
