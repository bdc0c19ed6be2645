// A backward pass in two halves, beside one in a whole.

#include "runtime/autograd/split_backward.h"

#include "runtime/nn/layers.h"
#include "test/runtime/functional/operators_under_test.h"

namespace kernbench::test::split_backward_test {
namespace {

using autograd::SplitBackward;

// Operators whose parameters are given their gradients in either half, one of them twice.
struct Layers {
  explicit Layers(OperatorsUnderTest& dut)
      : weight(dut.leaf({4, 4}, 1)),
        bias(dut.leaf({4}, 2)),
        scale(dut.leaf({4}, 3)),
        shift(dut.leaf({4}, 4)),
        table(dut.leaf({4, 4}, 5)) {}

  Tensor forward(const Tensor& x) const {
    const Tensor first = relu(addmm(bias, x, weight, {.transpose_b = true}));
    const Tensor normed = nn::functional::layer_norm(first * scale, {4}, scale, shift);
    // A branch that leads to no input.
    return matmul(normed, weight) + matmul(exp(table * 0.125), table) + narrow(first, 0, 0, 4);
  }
  std::vector<Tensor> parameters() const { return {weight, bias, scale, shift, table}; }

  Tensor weight;
  Tensor bias;
  Tensor scale;
  Tensor shift;
  Tensor table;
};

std::vector<Floats> gradients_of(const std::vector<Tensor>& leaves) {
  std::vector<Floats> all;
  for (const Tensor& leaf : leaves) {
    all.push_back(leaf.grad().defined() ? leaf.grad().to_vector() : Floats());
  }
  return all;
}

TEST_CASE("both halves of a backward pass give what the whole gives, bit for bit",
          "[autograd][split]") {
  OperatorsUnderTest whole;
  const Layers expected(whole);
  const Tensor x = whole.leaf({4, 4}, 6);
  for (int pass = 0; pass < 2; ++pass)
    expected.forward(x).backward(whole.tensor({4, 4}, small_integers(16, 7)));

  OperatorsUnderTest split;
  const Layers layers(split);
  const Tensor input = split.leaf({4, 4}, 6);
  std::vector<Floats> of_input;
  std::vector<SplitBackward> passes;
  for (int pass = 0; pass < 2; ++pass) {
    passes.emplace_back(layers.forward(input), split.tensor({4, 4}, small_integers(16, 7)),
                        std::vector{input});
    of_input.push_back(passes.back().take_input_gradients().front().to_vector());
  }
  CHECK_FALSE(input.grad().defined());
  CHECK(gradients_of(layers.parameters()) == std::vector<Floats>(5));
  for (SplitBackward& pass : passes) pass.run_weights();
  CHECK(gradients_of(layers.parameters()) == gradients_of(expected.parameters()));
  CHECK(of_input[0] == of_input[1]);
  Floats twice = of_input[0];
  for (float& each : twice) each += each;
  CHECK(twice == x.grad().to_vector());
  CHECK_FALSE(input.grad().defined());
}

TEST_CASE("without inputs all of a backward pass is for the weights", "[autograd][split]") {
  OperatorsUnderTest dut;
  const Layers layers(dut);
  const Tensor x = dut.tensor({4, 4}, small_integers(16, 6));
  SplitBackward pass(layers.forward(x), dut.tensor({4, 4}, small_integers(16, 7)), {});
  CHECK(pass.take_input_gradients().empty());
  CHECK(gradients_of(layers.parameters()) == std::vector<Floats>(5));
  pass.run_weights();
  const std::vector<Floats> found = gradients_of(layers.parameters());
  OperatorsUnderTest other;
  const Layers expected(other);
  expected.forward(other.tensor({4, 4}, small_integers(16, 6)))
      .backward(other.tensor({4, 4}, small_integers(16, 7)));
  CHECK(found == gradients_of(expected.parameters()));
}

TEST_CASE("hooks are called once, each in the half that makes its gradient", "[autograd][split]") {
  OperatorsUnderTest dut;
  const Layers layers(dut);
  const Tensor x = dut.leaf({4, 4}, 6);
  const Tensor y = layers.forward(x);
  int of_input = 0;
  int of_weight = 0;
  int of_result = 0;
  x.register_hook([&](const Tensor&) { ++of_input; });
  layers.weight.register_hook([&](const Tensor&) { ++of_weight; });
  y.register_hook([&](const Tensor&) { ++of_result; });
  SplitBackward pass(y, dut.tensor({4, 4}, small_integers(16, 7)), {x});
  CHECK(of_input == 1);
  CHECK(of_weight == 0);
  CHECK(of_result == 1);
  pass.run_weights();
  CHECK(of_input == 1);
  CHECK(of_weight == 1);
  CHECK(of_result == 1);
  CHECK_THAT(refusal([&] {
               y.backward(dut.tensor({4, 4}, small_integers(16, 7)));
             }),
             Says("KB-A004"));
}

TEST_CASE("what checkpoint() has made has no halves", "[autograd][split][errors]") {
  OperatorsUnderTest dut;
  const Tensor weight = dut.leaf({4, 4}, 1);
  const Tensor x = dut.leaf({4, 4}, 2);
  const auto make = [&] {
    return nn::utils::checkpoint([&](const auto& in) { return matmul(in[0], weight); }, {x});
  };
  const Tensor dy = dut.tensor({4, 4}, small_integers(16, 3));
  CHECK_THAT(refusal([&] { const SplitBackward first(make(), dy, {x}); }), Says("KB-A031"));
  CHECK_THAT(refusal([&] { autograd::grad({make()}, {x}, {dy}); }), Says("KB-A031"));
  CHECK_FALSE(weight.grad().defined());
  make().backward(dy);
  CHECK(weight.grad().defined());
}

TEST_CASE("the first half multiplies for the input alone, and so does grad()",
          "[autograd][split][timing]") {
  const auto time_of = [](auto backward) {
    OperatorsUnderTest dut;
    const Tensor weight = dut.leaf({64, 64}, 1);
    const Tensor x = dut.leaf({64, 64}, 2);
    const Tensor y = matmul(x, weight);
    const Tensor dy = dut.tensor({64, 64}, small_integers(4096, 3));
    dut.torch.ahbm.synchronize();
    const Time before = dut.torch.engine().now();
    backward(x, y, dy);
    dut.torch.ahbm.synchronize();
    return dut.torch.engine().now() - before;
  };
  const Time of_whole =
      time_of([](const Tensor&, const Tensor& y, const Tensor& dy) { y.backward(dy); });
  const Time of_input = time_of([](const Tensor& x, const Tensor& y, const Tensor& dy) {
    const SplitBackward first(y, dy, {x});
  });
  const Time of_both = time_of([](const Tensor& x, const Tensor& y, const Tensor& dy) {
    SplitBackward both(y, dy, {x});
    both.run_weights();
  });
  const Time of_grad = time_of(
      [](const Tensor& x, const Tensor& y, const Tensor& dy) { autograd::grad({y}, {x}, {dy}); });
  CHECK(of_both == of_whole);
  CHECK(of_input > Time{0});
  CHECK(of_input < of_whole);
  CHECK(of_grad == of_input);
}

}  // namespace
}  // namespace kernbench::test::split_backward_test
