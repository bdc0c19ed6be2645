#include <fmt/format.h>

#include <array>

#include "runtime/functional/elementwise_operator.h"
#include "runtime/functional/functional.h"
#include "runtime/functional/operators.h"
#include "runtime/functional/shape_operators.h"
#include "sim_engine/base/enum_names.h"
#include "sim_engine/base/error.h"

namespace kernbench {

using ops::Linearity;

namespace {

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

// gelu with Phi.  Phi(-|x|) is a polynomial of t = 1 / (1 + p |x| / sqrt(2)) times exp(-x^2 / 2),
// whose coefficients are half of those in Abramowitz and Stegun 7.1.26 for erfc.  For a negative x
// this is Phi(x) itself, not 1 minus a number, so that it loses no digits.
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

// tanh(x) = 2 sigmoid(2 x) - 1 loses digits near 0, where its series takes over: below 1/4 five
// terms are within 1e-8 of it, and above the difference is within 3e-7, both relative.
tl::Tensor tanh_of(tl::Context& tl, const tl::Tensor& x) {
  constexpr std::array kTerms = {62.0 / 2835, -17.0 / 315, 2.0 / 15, -1.0 / 3, 1.0};
  const tl::Tensor square = x * x;
  tl::Tensor sum = tl.fma(square, kTerms[0], kTerms[1]);
  for (std::size_t i = 2; i < kTerms.size(); ++i) sum = tl.fma(sum, square, kTerms[i]);
  const tl::Tensor far = tl.fma(tl.sigmoid(x * 2.0), 2, -1);
  return tl.where(square < 1.0 / 16, x * sum, far);
}

template <class Form>
constexpr ElementwiseOperator kGelu{
    "gelu",
    Linearity::none,
    [](const Elements& of) { return Form::of(of.tl, of.a()).value(); },
    Computes::in_f32,
    {Derivative{[](const Elements& of) { return of.dy() * Form::of(of.tl, of.a()).slope(of.tl); },
                needs::kA}}};

constexpr ElementwiseOperator kRelu{
    "relu",
    Linearity::none,
    [](const Elements& of) { return of.tl.maximum(of.a(), 0); },
    Computes::in_own_type,
    {Derivative{[](const Elements& of) { return of.tl.where(of.y() <= 0, 0, of.dy()); },
                needs::kResult, Computes::in_own_type}}};

constexpr ElementwiseOperator kSigmoid =
    of_type(ResultType::floating,
            {"sigmoid",
             Linearity::none,
             [](const Elements& of) { return of.tl.sigmoid(of.a()); },
             Computes::in_own_type,
             {Derivative{[](const Elements& of) { return of.dy() * (1 - of.y()) * of.y(); },
                         needs::kResult}}});

constexpr ElementwiseOperator kTanh =
    of_type(ResultType::floating,
            {"tanh",
             Linearity::none,
             [](const Elements& of) { return tanh_of(of.tl, of.a()); },
             Computes::in_f32,
             {Derivative{[](const Elements& of) { return of.dy() * (1 - of.y() * of.y()); },
                         needs::kResult}}});

// x sigmoid(x), whose slope is s (1 + x (1 - s)).
constexpr ElementwiseOperator kSilu{
    "silu",
    Linearity::none,
    [](const Elements& of) { return of.a() * of.tl.sigmoid(of.a()); },
    Computes::in_f32,
    {Derivative{[](const Elements& of) {
                  const tl::Tensor s = of.tl.sigmoid(of.a());
                  return of.dy() * (s * of.tl.fma(of.a(), 1 - s, 1));
                },
                needs::kA}}};

constexpr ElementwiseOperator kLeakyRelu{
    "leaky_relu",
    Linearity::none,
    [](const Elements& of) { return of.tl.where(of.a() > 0, of.a(), of.a() * of.numbers[0]); },
    Computes::in_f32,
    {Derivative{[](const Elements& of) {
                  return of.tl.where(of.a() > 0, of.dy(), of.dy() * of.numbers[0]);
                },
                needs::kA}}};

}  // namespace

Tensor relu(const Tensor& x) {
  check_has_numbers("relu", {x});
  return apply(kRelu, {x});
}
Tensor sigmoid(const Tensor& x) {
  return apply(kSigmoid, {x});
}
Tensor tanh(const Tensor& x) {
  return apply(kTanh, {x});
}

const Tensor& Tensor::relu_() const {
  return apply_in_place(kRelu, *this);
}
const Tensor& Tensor::sigmoid_() const {
  return apply_in_place(kSigmoid, *this);
}
const Tensor& Tensor::tanh_() const {
  return apply_in_place(kTanh, *this);
}

namespace nn::functional {

Tensor silu(const Tensor& x) {
  ops::check_is_floating("silu", x);
  return apply(kSilu, {x});
}

Tensor leaky_relu(const Tensor& x, double negative_slope) {
  ops::check_is_floating("leaky_relu", x);
  return apply(kLeakyRelu, {x}, {negative_slope});
}

Tensor glu(const Tensor& x, int dim) {
  ops::check_is_floating("glu", x);
  if (x.dim() == 0 || x.size(dim) % 2 != 0) {
    ops::refuse_shapes("glu", fmt::format("Halving dimension must be even, but dimension {} is of "
                                          "{}",
                                          dim, to_string(x.shape())));
  }
  const std::vector<Tensor> halves = chunk(x, 2, dim);
  return halves.front() * sigmoid(halves.back());
}

Tensor gelu(const Tensor& x, Approximate approximate) {
  if (!is_enumerator(approximate, 2)) {
    throw DeviceError("KB-F001", fmt::format("gelu: there is no Approximate {}; there are: none, "
                                             "tanh",
                                             number_of(approximate)));
  }
  ops::check_is_floating("gelu", x);
  return apply(approximate == Approximate::tanh ? kGelu<TanhGelu> : kGelu<ErfGelu>, {x});
}

}  // namespace nn::functional

}  // namespace kernbench
