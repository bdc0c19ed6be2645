// Every operator whose result is replicated may be given a gradient that is a sum of holders.

#include "test/runtime/functional/operators_under_test.h"

namespace kernbench::test::partial_gradient_test {
namespace {

namespace F = nn::functional;
using Tensors = std::vector<Tensor>;

const DPPolicy kReplicated = on_pes(Shard::replicate);

struct Operator {
  std::string name;
  std::vector<Shape> inputs;
  Function function;
  // True if its gradients are sums of products of sixteenths and whole numbers, which are exact in
  // any order.
  bool is_exact = true;
};

std::vector<Operator> operators_on_elements() {
  return {
      {"relu", {{3, 4}}, [](const Tensors& in) { return relu(in[0]); }},
      {"gelu", {{3, 4}}, [](const Tensors& in) { return F::gelu(in[0]); }, false},
      {"gelu by tanh",
       {{3, 4}},
       [](const Tensors& in) { return F::gelu(in[0], F::Approximate::tanh); },
       false},
      {"clone", {{3, 4}}, [](const Tensors& in) { return clone(in[0]); }},
      {"scale", {{3, 4}}, [](const Tensors& in) { return 3 * in[0]; }},
      {"add", {{3, 4}, {4}}, [](const Tensors& in) { return in[0] + in[1]; }},
      {"sub", {{3, 4}, {4}}, [](const Tensors& in) { return in[0] - in[1]; }},
      {"mul", {{3, 4}, {4}}, [](const Tensors& in) { return in[0] * in[1]; }},
      {"transpose", {{3, 4}}, [](const Tensors& in) { return transpose(in[0], 0, 1); }},
      {"reshape",
       {{3, 4}},
       [](const Tensors& in) {
         return reshape(in[0], {2, 6});
       }},
      {"split, cat", {{3, 4}}, [](const Tensors& in) { return cat(split(in[0], 2, 1), 0); }},
      {"split_heads", {{3, 4}}, [](const Tensors& in) { return split_heads(in[0], 2); }},
      {"merge_heads", {{2, 3, 4}}, [](const Tensors& in) { return merge_heads(in[0]); }},
  };
}

std::vector<Operator> operators_on_rows(const Tensor& numbers) {
  const auto attention = [](const Tensors& in) {
    return F::scaled_dot_product_attention(in[0], in[1], in[2], {.is_causal = true});
  };
  const auto loss = [=](F::Reduction reduction) {
    return [=](const Tensors& in) {
      return F::cross_entropy(in[0], numbers, {.reduction = reduction});
    };
  };
  return {
      {"sum", {{3, 4}}, [](const Tensors& in) { return sum(in[0]); }},
      {"softmax", {{3, 4}}, [](const Tensors& in) { return F::softmax(in[0]); }, false},
      {"layer_norm",
       {{3, 4}, {4}, {4}},
       [](const Tensors& in) { return F::layer_norm(in[0], {4}, in[1], in[2]); },
       false},
      {"rms_norm",
       {{3, 4}, {4}},
       [](const Tensors& in) { return F::rms_norm(in[0], {4}, in[1]); },
       false},
      {"embedding", {{3, 4}}, [=](const Tensors& in) { return F::embedding(numbers, in[0]); }},
      {"losses", {{4, 3}}, loss(F::Reduction::none), false},
      {"sum of losses", {{4, 3}}, loss(F::Reduction::sum), false},
      {"mean loss", {{4, 3}}, loss(F::Reduction::mean), false},
      {"matmul", {{3, 4}, {4, 5}}, [](const Tensors& in) { return matmul(in[0], in[1]); }},
      {"linear",
       {{3, 4}, {5, 4}, {5}},
       [](const Tensors& in) { return F::linear(in[0], in[1], in[2]); }},
      {"attention", {{2, 3, 4}, {2, 3, 4}, {2, 3, 4}}, attention, false},
  };
}

std::vector<Floats> gradients(OperatorsUnderTest& dut, const Operator& tested,
                              const std::function<Tensor(const Shape&)>& gradient_of) {
  Tensors leaves;
  for (const Shape& shape : tested.inputs) {
    const int seed = static_cast<int>(leaves.size()) + 1;
    leaves.push_back(dut.tensor(shape, sixteenths(shape.numel(), seed), kReplicated));
    leaves.back().requires_grad_();
  }
  const Tensor y = tested.function(leaves);
  y.backward(gradient_of(y.shape()));
  std::vector<Floats> all;
  for (const Tensor& leaf : leaves) all.push_back(leaf.grad().to_vector());
  return all;
}

// Compares gradients that are not exact: those of the whole and of the two summands are within
// 2^-18 (at most 30 roundings of numbers below 2), and their sum is rounded once more.
void check_gradient_of_a_sum(OperatorsUnderTest& dut, const Operator& tested) {
  CAPTURE(tested.name);
  const auto whole = [&](const Shape& shape) {
    return dut.tensor(shape, small_integers(shape.numel(), 5), kReplicated);
  };
  const auto parts = [&](const Shape& shape) {
    return dut.tensor(shape, small_integers(shape.numel(), 5), on_pes(Shard::partial));
  };
  const std::vector<Floats> expected = gradients(dut, tested, whole);
  const std::vector<Floats> got = gradients(dut, tested, parts);
  REQUIRE_FALSE(expected.empty());
  REQUIRE(got.size() == expected.size());
  for (std::size_t k = 0; k < expected.size(); ++k) {
    REQUIRE(got[k].size() == expected[k].size());
    const double bound = tested.is_exact ? 0 : std::ldexp(1.0, -16);
    for (std::size_t i = 0; i < expected[k].size(); ++i) {
      CHECK(std::abs(got[k][i] - expected[k][i]) <= bound);
    }
  }
}

TEST_CASE("a gradient that is a sum of holders has the gradients of the sum", "[partial]") {
  OperatorsUnderTest dut;
  const Tensor numbers = dut.tensor({4}, {0, 2, 1, 2}, kReplicated);
  for (const Operator& tested : operators_on_elements()) check_gradient_of_a_sum(dut, tested);
  for (const Operator& tested : operators_on_rows(numbers)) check_gradient_of_a_sum(dut, tested);
}

}  // namespace
}  // namespace kernbench::test::partial_gradient_test
