// Tests that rates, groups and states that optimizers and schedules cannot use are refused at once,
// and change nothing.

#include <limits>

#include "runtime/optim/float16_optimizer.h"
#include "runtime/optim/optimizer.h"
#include "test/runtime/functional/operators_under_test.h"

namespace kernbench::test::wrong_states_test {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// A state without a tensor or a number.
nn::State changed(const nn::State& state, const std::string& without) {
  nn::State left;
  for (const auto& [name, tensor] : state.tensors) {
    if (name != without) left.tensors.insert(name, tensor);
  }
  for (const auto& [name, number] : state.numbers) {
    if (name != without) left.numbers.insert(name, number);
  }
  return left;
}

nn::State with(const nn::State& state, const std::string& name, double number) {
  nn::State left = changed(state, name);
  left.numbers.insert(name, number);
  return left;
}

template <class Optimizer, class Options>
void check_missing(OperatorsUnderTest& dut, const Options& options) {
  const Tensor w = dut.tensor({2}, {1, 2}).requires_grad_();
  Optimizer optimizer({w}, options);
  w.mutable_grad() = dut.tensor({2}, {1, 1});
  optimizer.step();
  nn::State state = optimizer.state_dict();
  for (const std::string& name : state.tensors.keys()) {
    INFO(name);
    const std::string key = name.substr(std::string("state.0.").size());
    CHECK_THAT(refusal([&] { optimizer.load_state_dict(changed(state, name)); }),
               Says("KB-A012", "KeyError: '" + key + "'", name));
    nn::State other = changed(state, name);
    other.tensors.insert(name, RuntimeContext::tensor({1, 2, 3}));
    CHECK_THAT(refusal([&] { optimizer.load_state_dict(other); }),
               Says("KB-A012", "size mismatch for " + name, "shape [3]", "has [2]"));
  }
  CHECK_THAT(refusal([&] { optimizer.load_state_dict(changed(state, "param_groups.0.lr")); }),
             Says("KB-A012", "KeyError: 'lr'"));
  for (const double steps : {-1.0, 0.5, kNan}) {
    CHECK_THAT(refusal([&] { optimizer.load_state_dict(with(state, "state.0.step", steps)); }),
               Says("KB-A012", "state.0.step", "not a number of steps"));
  }
  CHECK_THAT(refusal([&] { optimizer.load_state_dict(with(state, "param_groups.0.lr", kNan)); }),
             Says("KB-A012", "Invalid learning rate: nan"));
  // Nothing of these was loaded.
  const nn::State now = optimizer.state_dict();
  CHECK(now.tensors.keys() == state.tensors.keys());
  CHECK(now.numbers["param_groups.0.lr"] == state.numbers["param_groups.0.lr"]);
  optimizer.load_state_dict(state);
  w.mutable_grad() = dut.tensor({2}, {1, 1});
  optimizer.step();
}

TEST_CASE("a state that lacks what the next step needs is refused when it is loaded", "[optim]") {
  OperatorsUnderTest dut;
  check_missing<optim::SGD>(dut, optim::SGDOptions(0.1).momentum(0.5));
  check_missing<optim::Adam>(dut, optim::AdamOptions().amsgrad(true));
  check_missing<optim::AdamW>(dut, optim::AdamWOptions());
  check_missing<optim::RMSprop>(dut, optim::RMSpropOptions().centered(true).momentum(0.5));
  check_missing<optim::Adagrad>(dut, optim::AdagradOptions());
}

TEST_CASE("the state of another optimizer is refused", "[optim]") {
  OperatorsUnderTest dut;
  const Tensor w = dut.tensor({2}, {1, 2}).requires_grad_();
  const auto stepped = [&](optim::Optimizer& optimizer) {
    w.mutable_grad() = dut.tensor({2}, {1, 1});
    optimizer.step();
    return optimizer.state_dict();
  };
  optim::SGD sgd({w}, optim::SGDOptions(0.1).momentum(0.5));
  optim::Adam adam({w});
  const nn::State of_sgd = stepped(sgd);
  const nn::State of_adam = stepped(adam);
  CHECK_THAT(refusal([&] { adam.load_state_dict(of_sgd); }),
             Says("KB-A012", "KeyError", "an optimizer of this kind"));
  CHECK_THAT(refusal([&] { sgd.load_state_dict(of_adam); }), Says("KB-A012", "'momentum'"));
  stepped(adam);
  stepped(sgd);
}

TEST_CASE("masters that a state lacks are refused before anything is loaded", "[optim]") {
  OperatorsUnderTest dut;
  const Tensor w = dut.tensor({2}, {1, 2}, on_pes(kR), DType::f16).requires_grad_();
  optim::Float16OptimizerWithFloat16Params optimizer(
      dut.torch, std::make_unique<optim::SGD>(std::vector{w}, 0.5));
  nn::State state = with(optimizer.state_dict(), "param_groups.0.lr", 0.25);
  CHECK_THAT(refusal([&] { optimizer.load_state_dict(changed(state, "fp32_from_fp16_params.0")); }),
             Says("KB-A012", "'fp32_from_fp16_params.0'"));
  CHECK(optimizer.lr(0) == 0.5);
  optimizer.load_state_dict(state);
  CHECK(optimizer.lr(0) == 0.25);
}

TEST_CASE("rates that are no numbers, and groups that are none, are refused", "[optim]") {
  OperatorsUnderTest dut;
  const Tensor w = dut.tensor({2}, {1, 2}).requires_grad_();
  optim::SGD sgd({w}, 0.5);
  for (const double lr : {kNan, std::numeric_limits<double>::infinity()}) {
    CHECK_THAT(refusal([&] { sgd.set_lr(0, lr); }), Says("KB-A012", "Invalid learning rate"));
    CHECK_THAT(refusal([&] { optim::SGD({w}, lr); }), Says("KB-A012", "Invalid learning rate"));
  }
  CHECK(sgd.lr(0) == 0.5);
  sgd.set_lr(0, -0.25);  // as torch's OneCycleLR after its last step
  optim::SGD({w}, 0.5).load_state_dict(sgd.state_dict());
  const Says out_of_range("KB-A012", "list index out of range", "no parameter group 5",
                          "there are 1");
  CHECK_THAT(refusal([&] { sgd.set_lr(5, 0.1); }), out_of_range);
  CHECK_THAT(refusal([&] { sgd.lr(5); }), out_of_range);
  CHECK_THAT(refusal([&] { sgd.initial_lr(5); }), out_of_range);
  CHECK_THAT(refusal([&] { sgd.set_momentum(5, 0.5); }), out_of_range);
  CHECK_THAT(refusal([&] { optim::SGD(std::vector<optim::ParamGroup<optim::SGDOptions>>()); }),
             Says("KB-A012", "optimizer got an empty parameter list"));
}

TEST_CASE("schedules that give no rates are refused", "[optim]") {
  OperatorsUnderTest dut;
  const Tensor w = dut.tensor({2}, {1, 2}).requires_grad_();
  optim::SGD sgd({w}, 0.5);
  optim::SGD other({w}, 0.5);
  for (const std::int64_t count : {0, -1}) {
    const std::string got = "but got " + std::to_string(count);
    CHECK_THAT(refusal([&] { optim::StepLR(sgd, count); }), Says("KB-A012", "step_size", got));
    CHECK_THAT(refusal([&] { optim::CosineAnnealingLR(sgd, count); }),
               Says("KB-A012", "T_max", got));
    CHECK_THAT(refusal([&] { optim::LinearLR(sgd, 1, 1, count); }),
               Says("KB-A012", "total_iters", got));
  }
  CHECK_THAT(refusal([&] { optim::LinearLR(sgd, 2); }),
             Says("KB-A012", "Starting multiplicative factor expected to be between 0 and 1"));
  CHECK_THAT(refusal([&] { optim::LinearLR(sgd, 1, kNan); }),
             Says("KB-A012", "Ending multiplicative factor expected to be between 0 and 1"));
  CHECK_THAT(refusal([&] { optim::StepLR(sgd, 2, kNan); }), Says("KB-A012", "Invalid gamma: nan"));
  CHECK_THAT(refusal([&] { optim::ExponentialLR(sgd, kNan); }),
             Says("KB-A012", "Invalid gamma: nan"));
  CHECK_THAT(refusal([&] { optim::LambdaLR(sgd, nullptr); }), Says("KB-A012", "LambdaLR"));
  CHECK_THAT(refusal([&] {
               optim::MultiStepLR(sgd, {3, -2});
             }),
             Says("KB-A012", "MultiStepLR", "[3, -2]"));
  optim::StepLR a(sgd, 2);
  optim::StepLR b(other, 2);
  CHECK_THAT(refusal([&] { optim::SequentialLR(sgd, {nullptr}, {}); }),
             Says("KB-A012", "index 0 is null"));
  CHECK_THAT(refusal([&] {
               optim::SequentialLR(sgd, {&a, &a, &a}, {5, 2});
             }),
             Says("KB-A012", "milestones must be increasing", "[5, 2]"));
  CHECK_THAT(refusal([&] {
               optim::SequentialLR(sgd, {&a, &b}, {5});
             }),
             Says("KB-A012", "to belong to the same optimizer", "index 1"));
  CHECK(sgd.lr(0) == 0.5);
}

TEST_CASE("a schedule that fails stays where it was", "[optim]") {
  OperatorsUnderTest dut;
  const Tensor w = dut.tensor({2}, {1, 2}).requires_grad_();
  optim::SGD sgd({w}, 0.5);
  optim::LambdaLR schedule(sgd, [](std::int64_t epoch) { return epoch == 1 ? kNan : 1; });
  CHECK_THAT(refusal([&] { schedule.step(); }), Says("KB-A012", "Invalid learning rate: nan"));
  CHECK(schedule.last_epoch() == 0);
  CHECK(sgd.lr(0) == 0.5);
}

}  // namespace
}  // namespace kernbench::test::wrong_states_test
