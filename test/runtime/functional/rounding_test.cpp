// Operators that work in f32 inside and round once to their type: forward and backward in every
// type, within bounds that follow from each of their operations.

#include "runtime/functional/functional.h"
#include "sim_engine/values/element_format.h"
#include "test/runtime/functional/operators_under_test.h"
#include "test/runtime/functional/reference_operators.h"

namespace kernbench::test::rounding_test {
namespace {

namespace F = nn::functional;
using Tensors = std::vector<Tensor>;

// An operator with the formulas of its kernels.
struct Operator {
  std::string name;
  std::vector<Shape> inputs;
  Function on_device;
  std::function<Numbers(const Inputs&, DType)> forward;
  // From dy and y, as the device has it, which some keep for backward.
  std::function<Inputs(const Inputs&, const Numbers& dy, const Numbers& y, DType)> backward;
};

constexpr std::size_t kColumns = 4;

Operator softmax() {
  const auto forward = [](const Inputs& in, DType dtype) {
    Numbers y;
    for_each_row(in[0], kColumns,
                 [&](const Numbers& x) { append(y, rounded(softmax_of_row(x, kColumns), dtype)); });
    return y;
  };
  const auto backward = [](const Inputs&, const Numbers& dy, const Numbers& y, DType dtype) {
    Numbers dx;
    for (std::size_t row = 0; row < y.size() / kColumns; ++row) {
      append(dx,
             rounded(softmax_gradient_of_row(row_of(dy, row, kColumns), row_of(y, row, kColumns)),
                     dtype));
    }
    return Inputs{dx};
  };
  return {
      "softmax", {{5, 4}}, [](const Tensors& in) { return F::softmax(in[0]); }, forward, backward};
}

template <class Form>
Operator gelu(const std::string& name, const Function& on_device) {
  const auto forward = [](const Inputs& in, DType dtype) {
    Numbers y;
    for (const Bounded& x : in[0]) y.push_back(rounded(Form(x).value, dtype));
    return y;
  };
  const auto backward = [](const Inputs& in, const Numbers& dy, const Numbers&, DType dtype) {
    Numbers dx;
    for (std::size_t i = 0; i < dy.size(); ++i) {
      dx.push_back(rounded(dy[i] * Form(in[0][i]).slope(), dtype));
    }
    return Inputs{dx};
  };
  return {name, {{5, 13}}, on_device, forward, backward};
}

constexpr double kEps = 0.5;

Numbers normalized(const Inputs& in, bool centers, DType dtype) {
  Numbers y;
  for_each_row(in[0], kColumns, [&](const Numbers& x) {
    Numbers row = products(NormalizedRow(x, centers, kEps).elements, in[1]);
    for (std::size_t i = 0; i < kColumns && centers; ++i) row[i] = row[i] + in[2][i];
    append(y, rounded(row, dtype));
  });
  return y;
}

Inputs normalization_gradients(const Inputs& in, const Numbers& dy, bool centers, DType dtype) {
  Numbers dx;
  std::vector<Numbers> of_weight(kColumns);
  std::vector<Numbers> of_bias(kColumns);
  for (std::size_t row = 0; row < dy.size() / kColumns; ++row) {
    const NormalizedRow x(row_of(in[0], row, kColumns), centers, kEps);
    const Numbers of_row = row_of(dy, row, kColumns);
    Numbers g = products(of_row, in[1]);
    const Bounded along = NormalizedRow::mean(products(g, x.elements));
    if (centers) NormalizedRow::subtract_mean(g);
    for (std::size_t i = 0; i < kColumns; ++i) {
      dx.push_back(rounded((g[i] - x.elements[i] * along) * x.scale, dtype));
      of_weight[i].push_back(of_row[i] * x.elements[i]);
      of_bias[i].push_back(of_row[i]);
    }
  }
  Numbers dw;
  Numbers db;
  for (std::size_t i = 0; i < kColumns; ++i) {
    dw.push_back(rounded(sum_in_any_order(of_weight[i]), dtype));
    db.push_back(rounded(sum_in_any_order(of_bias[i]), dtype));
  }
  return centers ? Inputs{dx, dw, db} : Inputs{dx, dw};
}

Operator normalization(bool centers) {
  const auto on_device = [=](const Tensors& in) {
    return centers ? F::layer_norm(in[0], {4}, in[1], in[2], kEps)
                   : F::rms_norm(in[0], {4}, in[1], kEps);
  };
  const std::vector<Shape> shapes = {{5, 4}, {4}, {4}};
  return {centers ? "layer_norm" : "rms_norm",
          {shapes.begin(), shapes.end() - (centers ? 0 : 1)},
          on_device,
          [=](const Inputs& in, DType dtype) { return normalized(in, centers, dtype); },
          [=](const Inputs& in, const Numbers& dy, const Numbers&, DType dtype) {
            return normalization_gradients(in, dy, centers, dtype);
          }};
}

Operator attention(bool is_causal) {
  const Attention reference{3, 4, 2, 3, 1 / std::sqrt(2.0), is_causal};
  return {is_causal ? "causal attention" : "attention",
          {{3, 2}, {4, 2}, {4, 3}},
          [=](const Tensors& in) {
            return F::scaled_dot_product_attention(in[0], in[1], in[2], {.is_causal = is_causal});
          },
          [=](const Inputs& in, DType dtype) { return reference.forward(in, dtype); },
          [=](const Inputs& in, const Numbers& dy, const Numbers&, DType dtype) {
            return reference.backward(in, dy, dtype);
          }};
}

std::vector<Operator> operators() {
  return {softmax(),
          gelu<ErfGelu>("gelu", [](const Tensors& in) { return F::gelu(in[0]); }),
          gelu<TanhGelu>("gelu by tanh",
                         [](const Tensors& in) { return F::gelu(in[0], F::Approximate::tanh); }),
          normalization(true),
          normalization(false),
          attention(false),
          attention(true)};
}

Inputs inputs_of(const Operator& tested) {
  Inputs inputs;
  for (const Shape& shape : tested.inputs) {
    const int seed = static_cast<int>(inputs.size()) + 1;
    inputs.push_back(exactly(sixteenths(shape.numel(), seed)));
  }
  return inputs;
}

Floats gradient_of_result(std::size_t size) {
  return sixteenths(static_cast<std::int64_t>(size), 7);
}

void check_on_device(OperatorsUnderTest& dut, const Operator& tested, DType dtype) {
  CAPTURE(tested.name, name_of(dtype));
  Tensors leaves;
  for (const Shape& shape : tested.inputs) {
    const int seed = static_cast<int>(leaves.size()) + 1;
    leaves.push_back(
        dut.tensor(shape, sixteenths(shape.numel(), seed), DPPolicy::on_one_pe(), dtype));
    leaves.back().requires_grad_();
  }
  const Tensor y = tested.on_device(leaves);
  const Inputs inputs = inputs_of(tested);
  check_within(y.to_vector(), tested.forward(inputs, dtype));
  const Floats dy = gradient_of_result(static_cast<std::size_t>(y.numel()));
  y.backward(dut.tensor(y.shape(), dy, DPPolicy::on_one_pe(), dtype));
  const Inputs gradients = tested.backward(inputs, exactly(dy), exactly(y.to_vector()), dtype);
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    INFO("gradient " << i);
    check_within(leaves[i].grad().to_vector(), gradients[i]);
  }
}

TEST_CASE("operators and their gradients are within what their operations round", "[rounding]") {
  OperatorsUnderTest dut;
  for (const Operator& tested : operators()) {
    for (const DType dtype : {DType::f16, DType::bf16, DType::f32}) {
      check_on_device(dut, tested, dtype);
    }
  }
}

// Checks that the formulas above are those of gradients: with h = 2^-17 the slope is off by f''' /
// 6 2^-34 and by some units of 2^-53 / h, so by less than 1e-9 for an f''' below 100.
TEST_CASE("the gradients that operators are compared with are the slopes", "[rounding]") {
  constexpr double kStep = 1.0 / (1 << 17);
  for (const Operator& tested : operators()) {
    CAPTURE(tested.name);
    Inputs inputs = inputs_of(tested);
    const Numbers y = tested.forward(inputs, DType::f32);
    const Numbers dy = exactly(gradient_of_result(y.size()));
    const Inputs gradients = tested.backward(inputs, dy, y, DType::f32);
    const auto loss = [&] {
      double total = 0;
      const Numbers moved = tested.forward(inputs, DType::f32);
      for (std::size_t i = 0; i < moved.size(); ++i) total += dy[i].value * moved[i].value;
      return total;
    };
    for (std::size_t k = 0; k < inputs.size(); ++k) {
      for (std::size_t i = 0; i < inputs[k].size(); ++i) {
        const double there = inputs[k][i].value;
        inputs[k][i].value = there + kStep;
        const double above = loss();
        inputs[k][i].value = there - kStep;
        const double slope = (above - loss()) / (2 * kStep);
        inputs[k][i].value = there;
        CHECK(std::abs(slope - gradients[k][i].value) <= 1e-9);
      }
    }
  }
}

// The bounds tell one rounding from two: an operator that rounds its products before it adds the
// bias, or the normalized rows before it multiplies them, is found.
TEST_CASE("a second rounding is beyond the bounds", "[rounding]") {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    const Operator tested = normalization(true);
    const Inputs inputs = inputs_of(tested);
    const Numbers once = tested.forward(inputs, dtype);
    int found = 0;
    std::size_t at = 0;
    for_each_row(inputs[0], kColumns, [&](const Numbers& x) {
      const Numbers rows = NormalizedRow(x, true, kEps).elements;
      for (std::size_t i = 0; i < kColumns; ++i, ++at) {
        const float row = sim::round_to(dtype, rows[i].value);
        const double twice = sim::round_to(dtype, row * inputs[1][i].value + inputs[2][i].value);
        if (std::abs(twice - once[at].value) > once[at].error) ++found;
      }
    });
    CHECK(found > 0);
  }
}

}  // namespace
}  // namespace kernbench::test::rounding_test
