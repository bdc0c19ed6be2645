#include "runtime/functional/elementwise.h"

#include <fmt/format.h>

#include <array>

#include "runtime/autograd/autograd.h"
#include "runtime/ops/elements.h"
#include "sim_engine/base/enum_names.h"
#include "sim_engine/base/error.h"

namespace kernbench {

using autograd::needs_grad;
using autograd::SavedTensor;
using ops::Linearity;

namespace {

using Blocks = std::span<const tl::Tensor>;

// True if a is a vector beside a matrix b.
bool is_vector_beside(const Tensor& a, const Tensor& b) {
  return a.defined() && b.defined() && a.shape().rank() == 1 && b.shape().rank() > 1;
}

// Reduces the gradient of a + b or a b, which has the shape of a, to the shape of b.
Tensor reduced_to(const Shape& shape, const Tensor& gradient) {
  return gradient.shape() == shape ? gradient : ops::sum_of_rows(gradient);
}

Tensor product(const Tensor& a, const Tensor& b) {
  return ops::map("mul", ops::elementwise_placement("mul", a, b, Linearity::each), {a, b},
                  [](tl::Context&, Blocks of) { return of[0] * of[1]; });
}

Tensor scaled(const Tensor& x, double number) {
  return ops::map("scale", ops::placement_of(x), {x},
                  ops::Owning([=](tl::Context& tl, Blocks of) {
                    return tl.cast(tl.cast(of[0], DType::f32) * number, of[0].dtype());
                  }));
}

Tensor negated(const Tensor& x) {
  return ops::map("neg", ops::placement_of(x), {x}, [](tl::Context&, Blocks of) { return -of[0]; });
}

// gelu with a sigmoid, and its intermediate values, in f32.
struct TanhGelu {
  tl::Tensor x;
  tl::Tensor square;
  tl::Tensor gate;  // sigmoid(2 u), u = sqrt(2 / pi) (x + 0.044715 x^3)

  static constexpr double kScale = 2 * 0.7978845608028654;  // 2 sqrt(2 / pi)
  static constexpr double kCubic = 0.044715;

  static TanhGelu of(tl::Context& tl, const tl::Tensor& block) {
    tl::Tensor x = tl.cast(block, DType::f32);
    tl::Tensor square = x * x;
    tl::Tensor gate = tl.sigmoid(tl.fma(square, kCubic, 1) * x * kScale);
    return {std::move(x), std::move(square), std::move(gate)};
  }

  tl::Tensor value() const { return x * gate; }
  // gate + x gate (1 - gate) 2 u'
  tl::Tensor slope(tl::Context& tl) const {
    const tl::Tensor inner = tl.fma(square, 3 * kCubic, 1) * kScale;
    return tl.fma(value() * (1 - gate), inner, gate);
  }
};

// gelu with Phi.  Phi(-
// x
// ) is a polynomial of t = 1 / (1 + p
// x
// / sqrt(2)) times exp(-x^2 / 2), whose coefficients are half of those in Abramowitz and Stegun
// 7.1.26 for erfc.  For a negative x this is Phi(x) itself, not 1 minus a number, so that it loses
// no digits.
struct ErfGelu {
  tl::Tensor x;
  tl::Tensor bell;  // exp(-x^2 / 2)
  tl::Tensor phi;

  static constexpr double kP = 0.3275911 * 0.7071067811865476;
  static constexpr double kDensity = 0.3989422804014327;  // 1 / sqrt(2 pi)
  static constexpr std::array kHalves = {1.061405429 / 2, -1.453152027 / 2, 1.421413741 / 2,
                                         -0.284496736 / 2, 0.254829592 / 2};

  static ErfGelu of(tl::Context& tl, const tl::Tensor& block) {
    tl::Tensor x = tl.cast(block, DType::f32);
    tl::Tensor bell = tl.exp(x * x * -0.5);
    const tl::Tensor t = 1 / tl.fma(tl.abs(x), kP, 1);
    tl::Tensor sum = tl.fma(t, kHalves[0], kHalves[1]);
    for (std::size_t i = 2; i < kHalves.size(); ++i) sum = tl.fma(sum, t, kHalves[i]);
    const tl::Tensor tail = sum * t * bell;
    tl::Tensor phi = tl.where(x < 0, tail, 1 - tail);
    return {std::move(x), std::move(bell), std::move(phi)};
  }

  tl::Tensor value() const { return x * phi; }
  tl::Tensor slope(tl::Context& tl) const { return tl.fma(x * bell, kDensity, phi); }
};

template <class Form>
Tensor gelu_by(const Tensor& x) {
  return ops::map("gelu", ops::placement_of(x), {x}, [](tl::Context& tl, Blocks of) {
    return tl.cast(Form::of(tl, of[0]).value(), of[0].dtype());
  });
}

template <class Form>
Tensor gelu_gradient_by(const Tensor& dy, const Tensor& x) {
  return ops::map("gelu_backward",
                  ops::elementwise_placement("gelu_backward", dy, x, Linearity::each), {dy, x},
                  [](tl::Context& tl, Blocks of) {
                    const tl::Tensor dy_block = tl.cast(of[0], DType::f32);
                    return tl.cast(dy_block * Form::of(tl, of[1]).slope(tl), of[0].dtype());
                  });
}

// Returns dy where y is positive, else 0.
Tensor relu_gradient(const Tensor& dy, const Tensor& y) {
  return ops::map("relu_backward",
                  ops::elementwise_placement("relu_backward", dy, y, Linearity::each), {dy, y},
                  [](tl::Context& tl, Blocks of) { return tl.where(of[1] > 0, of[0], 0); });
}

}  // namespace

Tensor operator+(const Tensor& a, const Tensor& b) {
  if (is_vector_beside(a, b)) return b + a;
  const auto backward = [shape = b.defined() ? b.shape() : Shape(), of_a = needs_grad(a),
                         of_b = needs_grad(b)](const Tensor& dy) {
    return std::vector{of_a ? dy : Tensor(), of_b ? reduced_to(shape, dy) : Tensor()};
  };
  return autograd::record("add", ops::sum_of(a, b), {a, b}, backward);
}

Tensor operator*(const Tensor& a, const Tensor& b) {
  if (is_vector_beside(a, b)) return b * a;
  Tensor result = product(a, b);
  if (!needs_grad(a, b)) return result;
  const auto backward = [a = needs_grad(b) ? SavedTensor(a) : SavedTensor(),
                         b = needs_grad(a) ? SavedTensor(b) : SavedTensor(), shape = b.shape(),
                         of_a = needs_grad(a), of_b = needs_grad(b)](const Tensor& dy) {
    return std::vector{of_a ? product(dy, b.get()) : Tensor(),
                       of_b ? reduced_to(shape, product(dy, a.get())) : Tensor()};
  };
  return autograd::record("mul", std::move(result), {a, b}, backward);
}

Tensor operator-(const Tensor& a, const Tensor& b) {
  Tensor result = ops::map("sub", ops::elementwise_placement("sub", a, b, Linearity::together),
                           {a, b}, [](tl::Context&, Blocks of) { return of[0] - of[1]; });
  const auto backward = [shape = b.shape(), of_a = needs_grad(a),
                         of_b = needs_grad(b)](const Tensor& dy) {
    return std::vector{of_a ? dy : Tensor(), of_b ? reduced_to(shape, negated(dy)) : Tensor()};
  };
  return autograd::record("sub", std::move(result), {a, b}, backward);
}

Tensor operator*(const Tensor& x, double number) {
  ops::check_operands("scale", {x});
  return autograd::record("scale", scaled(x, number), {x},
                          [number](const Tensor& dy) { return std::vector{scaled(dy, number)}; });
}

Tensor operator*(double number, const Tensor& x) {
  return x * number;
}

Tensor relu(const Tensor& x) {
  ops::check_operands("relu", {x});
  ops::check_is_whole("relu", x);
  Tensor y = ops::map("relu", ops::placement_of(x), {x},
                      [](tl::Context& tl, Blocks of) { return tl.maximum(of[0], 0); });
  if (!needs_grad(x)) return y;
  return autograd::record("relu", y, {x}, [y = SavedTensor(y)](const Tensor& dy) {
    return std::vector{relu_gradient(dy, y.get())};
  });
}

Tensor clone(const Tensor& x) {
  ops::check_operands("clone", {x});
  return autograd::record("clone", ops::copy_of(x), {x},
                          [](const Tensor& dy) { return std::vector{dy}; });
}

namespace nn::functional {

Tensor gelu(const Tensor& x, Approximate approximate) {
  if (!is_enumerator(approximate, 2)) {
    throw DeviceError("KB-F001", fmt::format("gelu: there is no Approximate {}; there are: none, "
                                             "tanh",
                                             number_of(approximate)));
  }
  ops::check_operands("gelu", {x});
  ops::check_is_whole("gelu", x);
  const bool is_tanh = approximate == Approximate::tanh;
  Tensor y = is_tanh ? gelu_by<TanhGelu>(x) : gelu_by<ErfGelu>(x);
  if (!needs_grad(x)) return y;
  const auto gradient = is_tanh ? gelu_gradient_by<TanhGelu> : gelu_gradient_by<ErfGelu>;
  return autograd::record("gelu", std::move(y), {x},
                          [gradient, x = SavedTensor(x)](const Tensor& dy) {
                            return std::vector{gradient(dy, x.get())};
                          });
}

}  // namespace nn::functional

}  // namespace kernbench
