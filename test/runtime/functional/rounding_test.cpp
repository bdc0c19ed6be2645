// Operators that work in f32 inside and round once to their type: forward and backward in every
// type, within bounds that follow from each of their operations.

#include "runtime/functional/functional.h"
#include "sim_engine/data/element_format.h"
#include "test/runtime/functional/operators_under_test.h"
#include "test/runtime/functional/running_error.h"

namespace kernbench::test {
namespace {

namespace F = nn::functional;
using Tensors = std::vector<Tensor>;
using Inputs = std::vector<Numbers>;

// An operator with the formulas of its kernels.
struct Operator {
  std::string name;
  std::vector<Shape> inputs;
  Function on_device;
  std::function<Numbers(const Inputs&, DType)> forward;
  // From dy and y, as the device has it, which some keep for backward.
  std::function<Inputs(const Inputs&, const Numbers& dy, const Numbers& y, DType)> backward;
};

Numbers exactly(const Floats& elements) {
  return {elements.begin(), elements.end()};
}

constexpr std::size_t kColumns = 4;

// Calls visit(begin) for each row of four.
template <class Visit>
void for_each_row(std::size_t size, Visit visit) {
  for (std::size_t begin = 0; begin < size; begin += kColumns) visit(begin);
}

Numbers row_of(const Numbers& x, std::size_t begin, std::size_t count = kColumns) {
  const auto first = x.begin() + static_cast<std::ptrdiff_t>(begin);
  return {first, first + static_cast<std::ptrdiff_t>(count)};
}

Numbers products(const Numbers& a, const Numbers& b) {
  Numbers result;
  for (std::size_t i = 0; i < a.size(); ++i) result.push_back(a[i] * b[i]);
  return result;
}

// softmax

// Of the first `count` of a row; the rest is 0.
Numbers softmax_of_row(const Numbers& x, std::size_t count) {
  Bounded most = x[0];
  for (std::size_t i = 1; i < count; ++i) {
    most = {std::max(most.value, x[i].value), std::max(most.error, x[i].error)};
  }
  Numbers y;
  for (std::size_t i = 0; i < count; ++i) y.push_back(exp(x[i] - most));
  const Bounded total = sum(y);
  for (Bounded& element : y) element = element / total;
  y.resize(x.size());
  return y;
}

Numbers softmax_gradient_of_row(const Numbers& dy, const Numbers& y) {
  const Bounded along = sum(products(dy, y));
  Numbers dx;
  for (std::size_t i = 0; i < y.size(); ++i) dx.push_back(y[i] * (dy[i] - along));
  return dx;
}

Operator softmax() {
  const auto forward = [](const Inputs& in, DType dtype) {
    Numbers y;
    for_each_row(in[0].size(), [&](std::size_t begin) {
      for (const Bounded& element : softmax_of_row(row_of(in[0], begin), kColumns)) {
        y.push_back(rounded(element, dtype));
      }
    });
    return y;
  };
  const auto backward = [](const Inputs&, const Numbers& dy, const Numbers& y, DType dtype) {
    Numbers dx;
    for_each_row(y.size(), [&](std::size_t begin) {
      for (const Bounded& element : softmax_gradient_of_row(row_of(dy, begin), row_of(y, begin))) {
        dx.push_back(rounded(element, dtype));
      }
    });
    return Inputs{dx};
  };
  return {
      "softmax", {{5, 4}}, [](const Tensors& in) { return F::softmax(in[0]); }, forward, backward};
}

// gelu

struct Gelu {
  Bounded square;
  Bounded gate;
  Bounded value;

  explicit Gelu(const Bounded& x)
      : square(x * x),
        gate(sigmoid(fma(square, Bounded::number(0.044715), 1) * x * scale())),
        value(x * gate) {}

  static Bounded scale() { return Bounded::number(2 * std::sqrt(2 / std::acos(-1.0))); }
  Bounded slope() const {
    const Bounded inner = fma(square, Bounded::number(3 * 0.044715), 1) * scale();
    return fma(value * (Bounded(1) - gate), inner, gate);
  }
};

Operator gelu() {
  const auto forward = [](const Inputs& in, DType dtype) {
    Numbers y;
    for (const Bounded& x : in[0]) y.push_back(rounded(Gelu(x).value, dtype));
    return y;
  };
  const auto backward = [](const Inputs& in, const Numbers& dy, const Numbers&, DType dtype) {
    Numbers dx;
    for (std::size_t i = 0; i < dy.size(); ++i) {
      dx.push_back(rounded(dy[i] * Gelu(in[0][i]).slope(), dtype));
    }
    return Inputs{dx};
  };
  return {"gelu", {{5, 4}}, [](const Tensors& in) { return F::gelu(in[0]); }, forward, backward};
}

// layer_norm and rms_norm

constexpr double kEps = 0.5;

struct Normalized {
  Numbers rows;
  Bounded scale;

  Normalized(Numbers x, bool centers) : rows(std::move(x)) {
    if (centers) subtract_mean(rows);
    scale = rsqrt(mean(products(rows, rows)) + kEps);
    for (Bounded& element : rows) element = element * scale;
  }

  static Bounded mean(const Numbers& x) { return sum(x) * Bounded(1.0 / kColumns); }
  static void subtract_mean(Numbers& x) {
    const Bounded of_all = mean(x);
    for (Bounded& element : x) element = element - of_all;
  }
};

Numbers normalized(const Inputs& in, bool centers, DType dtype) {
  Numbers y;
  for_each_row(in[0].size(), [&](std::size_t begin) {
    const Numbers rows = Normalized(row_of(in[0], begin), centers).rows;
    for (std::size_t i = 0; i < kColumns; ++i) {
      const Bounded weighted = rows[i] * in[1][i];
      y.push_back(rounded(centers ? weighted + in[2][i] : weighted, dtype));
    }
  });
  return y;
}

Inputs normalization_gradients(const Inputs& in, const Numbers& dy, bool centers, DType dtype) {
  Numbers dx;
  std::vector<Numbers> of_weight(kColumns);
  std::vector<Numbers> of_bias(kColumns);
  for_each_row(in[0].size(), [&](std::size_t begin) {
    const Normalized x(row_of(in[0], begin), centers);
    Numbers g = products(row_of(dy, begin), in[1]);
    const Bounded along = Normalized::mean(products(g, x.rows));
    if (centers) Normalized::subtract_mean(g);
    for (std::size_t i = 0; i < kColumns; ++i) {
      dx.push_back(rounded((g[i] - x.rows[i] * along) * x.scale, dtype));
      of_weight[i].push_back(dy[begin + i] * x.rows[i]);
      of_bias[i].push_back(dy[begin + i]);
    }
  });
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

// Attention of 3 rows over 4, with d = 2 and e = 3.

constexpr std::size_t kRows = 3;
constexpr std::size_t kDepth = 2;
constexpr std::size_t kWidth = 3;

// Rows of a product of PE_GEMM, times a factor: [rows, depth] x [depth, columns].
using Element = std::function<const Bounded&(std::size_t row, std::size_t column)>;
struct ProductSize {
  std::size_t rows;
  std::size_t columns;
  std::size_t depth;
};
Numbers product(const ProductSize& size, const Element& a, const Element& b, double factor,
                DType dtype) {
  Numbers result;
  for (std::size_t row = 0; row < size.rows; ++row) {
    for (std::size_t column = 0; column < size.columns; ++column) {
      Numbers terms;
      for (std::size_t i = 0; i < size.depth; ++i) terms.push_back(a(row, i) * b(i, column));
      const Bounded total = sum_in_any_order(terms);
      result.push_back(rounded(factor == 1 ? total : total * Bounded::number(factor), dtype));
    }
  }
  return result;
}

Element at(const Numbers& x, std::size_t columns) {
  return [&x, columns](std::size_t row, std::size_t column) -> const Bounded& {
    return x[row * columns + column];
  };
}
Element transposed(const Numbers& x, std::size_t columns) {
  return [&x, columns](std::size_t row, std::size_t column) -> const Bounded& {
    return x[column * columns + row];
  };
}

struct Attention {
  const double scale = 1 / std::sqrt(static_cast<double>(kDepth));
  bool is_causal;

  Numbers probabilities(const Inputs& in, DType dtype) const {
    const Numbers scores = product({kRows, kColumns, kDepth}, at(in[0], kDepth),
                                   transposed(in[1], kDepth), scale, dtype);
    Numbers p;
    for (std::size_t row = 0; row < kRows; ++row) {
      const std::size_t seen = is_causal ? row + 1 : kColumns;
      for (const Bounded& element : softmax_of_row(row_of(scores, row * kColumns), seen)) {
        p.push_back(element.value == 0 ? element : rounded(element, dtype));  // the mask is exact
      }
    }
    return p;
  }

  Numbers forward(const Inputs& in, DType dtype) const {
    const Numbers p = probabilities(in, dtype);
    return product({kRows, kWidth, kColumns}, at(p, kColumns), at(in[2], kWidth), 1, dtype);
  }

  Inputs backward(const Inputs& in, const Numbers& dy, DType dtype) const {
    const Numbers p = probabilities(in, dtype);
    const Numbers dp =
        product({kRows, kColumns, kWidth}, at(dy, kWidth), transposed(in[2], kWidth), 1, dtype);
    Numbers ds;
    for_each_row(p.size(), [&](std::size_t begin) {
      for (const Bounded& element : softmax_gradient_of_row(row_of(dp, begin), row_of(p, begin))) {
        ds.push_back(element.magnitude() == 0 ? element : rounded(element, dtype));
      }
    });
    return {product({kRows, kDepth, kColumns}, at(ds, kColumns), at(in[1], kDepth), scale, dtype),
            product({kColumns, kDepth, kRows}, transposed(ds, kColumns), at(in[0], kDepth), scale,
                    dtype),
            product({kColumns, kWidth, kRows}, transposed(p, kColumns), at(dy, kWidth), 1, dtype)};
  }
};

Operator attention(bool is_causal) {
  const Attention reference{.is_causal = is_causal};
  return {is_causal ? "causal attention" : "attention",
          {{kRows, kDepth}, {kColumns, kDepth}, {kColumns, kWidth}},
          [=](const Tensors& in) {
            return F::scaled_dot_product_attention(in[0], in[1], in[2], {.is_causal = is_causal});
          },
          [=](const Inputs& in, DType dtype) { return reference.forward(in, dtype); },
          [=](const Inputs& in, const Numbers& dy, const Numbers&, DType dtype) {
            return reference.backward(in, dy, dtype);
          }};
}

std::vector<Operator> operators() {
  return {softmax(),        gelu(),         normalization(true), normalization(false),
          attention(false), attention(true)};
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
        dut.tensor(shape, sixteenths(shape.numel(), seed), DPPolicy::replicated(), dtype));
    leaves.back().requires_grad_();
  }
  const Tensor y = tested.on_device(leaves);
  const Inputs inputs = inputs_of(tested);
  check_within(y.to_vector(), tested.forward(inputs, dtype));
  const Floats dy = gradient_of_result(static_cast<std::size_t>(y.numel()));
  y.backward(dut.tensor(y.shape(), dy, DPPolicy::replicated(), dtype));
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

// So that the formulas above are those of gradients: with h = 2^-17 the slope is off by f''' / 6
// 2^-34 and by some units of 2^-53 / h, so by less than 1e-9 for an f''' below 100.
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
    for_each_row(once.size(), [&](std::size_t begin) {
      const Numbers rows = Normalized(row_of(inputs[0], begin), true).rows;
      for (std::size_t i = 0; i < kColumns; ++i) {
        const float row = sim::round_to(dtype, rows[i].value);
        const double twice = sim::round_to(dtype, row * inputs[1][i].value + inputs[2][i].value);
        if (std::abs(twice - once[begin + i].value) > once[begin + i].error) ++found;
      }
    });
    CHECK(found > 0);
  }
}

}  // namespace
}  // namespace kernbench::test
