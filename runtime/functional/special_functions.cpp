// Trigonometric functions, other exponentials and logarithms, and functions of several tensors.

#include <cmath>
#include <numbers>

#include "runtime/functional/activations.h"
#include "runtime/functional/elementwise.h"
#include "runtime/functional/elementwise_operator.h"

namespace kernbench {

using ops::Linearity;

namespace {

// A function of real numbers: of integers it is f32.
constexpr ElementwiseOperator real(std::string_view name, ElementFunction forward,
                                   const Derivative& derivative) {
  return of_type(ResultType::floating,
                 {name, Linearity::none, forward, Computes::in_f32, {derivative}});
}

constexpr ElementwiseOperator kSin =
    real("sin", [](const Elements& of) { return of.tl.sin(of.a()); },
         {[](const Elements& of) { return of.dy() * of.tl.cos(of.a()); }, needs::kA});

constexpr ElementwiseOperator kCos =
    real("cos", [](const Elements& of) { return of.tl.cos(of.a()); },
         {[](const Elements& of) { return -of.dy() * of.tl.sin(of.a()); }, needs::kA});

constexpr ElementwiseOperator kTan = real(
    "tan", [](const Elements& of) { return of.tl.sin(of.a()) / of.tl.cos(of.a()); },
    {[](const Elements& of) { return of.dy() * of.tl.fma(of.y(), of.y(), 1); }, needs::kResult});

constexpr ElementwiseOperator kErf =
    real("erf", [](const Elements& of) { return of.tl.erf(of.a()); },
         {[](const Elements& of) {
            return of.dy() * (of.tl.exp(-of.a() * of.a()) * (2 * std::numbers::inv_sqrtpi));
          },
          needs::kA});

constexpr ElementwiseOperator kExp2 =
    real("exp2", [](const Elements& of) { return of.tl.exp2(of.a()); },
         {[](const Elements& of) { return of.dy() * of.y() * std::numbers::ln2; }, needs::kResult});

constexpr ElementwiseOperator kLog2 =
    real("log2", [](const Elements& of) { return of.tl.log2(of.a()); },
         {[](const Elements& of) { return of.dy() / (of.a() * std::numbers::ln2); }, needs::kA});

// The rounding of 1 + x, or of e^x, is mended by what the other function makes of it (Kahan; in
// Higham, Accuracy and Stability of Numerical Algorithms, section 1.14.1).
tl::Tensor log1p_of(tl::Context& tl, const tl::Tensor& x) {
  const tl::Tensor sum = x + 1.0;
  const tl::Tensor kept = sum - 1.0;
  const tl::Tensor y = tl.log(sum) * (x / kept);
  return tl.where(kept == 0, x, tl.where(sum == HUGE_VAL, sum, y));
}
tl::Tensor expm1_of(tl::Context& tl, const tl::Tensor& x) {
  const tl::Tensor power = tl.exp(x);
  const tl::Tensor kept = power - 1.0;
  const tl::Tensor y = kept * (x / tl.log(power));
  const tl::Tensor is_end = tl.maximum(power == HUGE_VAL, kept == -1.0);
  return tl.where(kept == 0, x, tl.where(is_end, kept, y));
}

constexpr ElementwiseOperator kLog1p =
    real("log1p", [](const Elements& of) { return log1p_of(of.tl, of.a()); },
         {[](const Elements& of) { return of.dy() / (of.a() + 1.0); }, needs::kA});

constexpr ElementwiseOperator kExpm1 =
    real("expm1", [](const Elements& of) { return expm1_of(of.tl, of.a()); },
         {[](const Elements& of) { return of.dy() * (of.y() + 1.0); }, needs::kResult});

// log(1 + exp(x)), of which the exponential of a large x is too large.
constexpr ElementwiseOperator kSoftplus{
    "softplus",
    Linearity::none,
    [](const Elements& of) {
      return of.tl.maximum(of.a(), 0) + log1p_of(of.tl, of.tl.exp(-of.tl.abs(of.a())));
    },
    Computes::in_f32,
    {Derivative{[](const Elements& of) { return of.dy() * of.tl.sigmoid(of.a()); }, needs::kA}}};

// The larger one stands in front of the root, so that no square is too large.
tl::Tensor hypot_of(tl::Context& tl, const tl::Tensor& a, const tl::Tensor& b) {
  const tl::Tensor more = tl.maximum(tl.abs(a), tl.abs(b));
  const tl::Tensor less = tl.minimum(tl.abs(a), tl.abs(b));
  const tl::Tensor share = less / more;
  const tl::Tensor is_end = tl.maximum(more == 0, more == HUGE_VAL);
  return tl.where(is_end, more, more * tl.sqrt(tl.fma(share, share, 1)));
}

constexpr ElementwiseOperator kHypot =
    of_type(ResultType::floating,
            {"hypot",
             Linearity::none,
             [](const Elements& of) { return hypot_of(of.tl, of.a(), of.b()); },
             Computes::in_f32,
             {Derivative{[](const Elements& of) { return of.dy() * (of.a() / of.y()); },
                         needs::kA | needs::kResult},
              Derivative{[](const Elements& of) { return of.dy() * (of.b() / of.y()); },
                         needs::kB | needs::kResult}}});

// Each element is computed from the nearer end, as in torch, so that both ends are met exactly.
constexpr ElementwiseOperator kLerp{
    "lerp",
    Linearity::none,
    [](const Elements& of) {
      const double weight = of.numbers[0].real();
      const tl::Tensor way = of.b() - of.a();
      return weight < 0.5 ? of.tl.fma(way, weight, of.a()) : of.tl.fma(way, weight - 1, of.b());
    },
    Computes::in_f32,
    {Derivative{[](const Elements& of) { return of.dy() * (1 - of.numbers[0].real()); }},
     Derivative{[](const Elements& of) { return of.dy() * of.numbers[0]; }}}};

constexpr ElementwiseOperator kAddcmul{
    "addcmul",
    Linearity::none,
    [](const Elements& of) { return of.tl.fma(of.b() * of.numbers[0], of.c(), of.a()); },
    Computes::in_f32,
    {kIdentity,
     Derivative{[](const Elements& of) { return of.dy() * of.numbers[0] * of.c(); }, needs::kC},
     Derivative{[](const Elements& of) { return of.dy() * of.numbers[0] * of.b(); }, needs::kB}}};

constexpr ElementwiseOperator kAddcdiv = of_type(
    ResultType::floating,
    {"addcdiv",
     Linearity::none,
     [](const Elements& of) { return of.a() + of.b() * of.numbers[0] / of.c(); },
     Computes::in_f32,
     {kIdentity,
      Derivative{[](const Elements& of) { return of.dy() * of.numbers[0] / of.c(); }, needs::kC},
      Derivative{
          [](const Elements& of) { return -of.dy() * of.numbers[0] * (of.b() / of.c() / of.c()); },
          needs::kB | needs::kC}}});

void check_divides_reals(std::string_view name, const Tensor& a, const Tensor& b) {
  if (!is_integral(a.dtype()) || !is_integral(b.dtype())) return;
  ops::refuse_type(name,
                   "Integer division with addcdiv is no longer supported: convert one of them, "
                   "such as x.to(kb::DType::f32)");
}

}  // namespace

Tensor sin(const Tensor& x) {
  return apply(kSin, {x});
}
Tensor cos(const Tensor& x) {
  return apply(kCos, {x});
}
Tensor tan(const Tensor& x) {
  return apply(kTan, {x});
}
Tensor erf(const Tensor& x) {
  return apply(kErf, {x});
}
Tensor exp2(const Tensor& x) {
  return apply(kExp2, {x});
}
Tensor log2(const Tensor& x) {
  return apply(kLog2, {x});
}
Tensor log1p(const Tensor& x) {
  return apply(kLog1p, {x});
}
Tensor expm1(const Tensor& x) {
  return apply(kExpm1, {x});
}
Tensor nn::functional::softplus(const Tensor& x) {
  ops::check_is_floating("softplus", x);
  return apply(kSoftplus, {x});
}
Tensor hypot(const Tensor& a, const Tensor& b) {
  if (is_integral(a.dtype())) ops::check_is_floating("hypot", b);
  return apply(kHypot, {a, b});
}
Tensor lerp(const Tensor& start, const Tensor& end, double weight) {
  ops::check_is_floating("lerp", start);
  return apply(kLerp, {start, end}, {weight});
}
Tensor addcmul(const Tensor& x, const Tensor& a, const Tensor& b, const Scalar& value) {
  check_has_numbers("addcmul", {x, a, b});
  return apply(kAddcmul, {x, a, b}, {value});
}
Tensor addcdiv(const Tensor& x, const Tensor& a, const Tensor& b, const Scalar& value) {
  check_divides_reals("addcdiv", a, b);
  return apply(kAddcdiv, {x, a, b}, {value});
}

const Tensor& Tensor::lerp_(const Tensor& end, double weight) const {
  ops::check_is_floating("lerp_", *this);
  apply_in_place(kLerp, {*this, end}, {weight});
  return *this;
}
const Tensor& Tensor::addcmul_(const Tensor& a, const Tensor& b, const Scalar& value) const {
  check_has_numbers("addcmul_", {*this, a, b});
  apply_in_place(kAddcmul, {*this, a, b}, {value});
  return *this;
}
const Tensor& Tensor::addcdiv_(const Tensor& a, const Tensor& b, const Scalar& value) const {
  check_divides_reals("addcdiv_", a, b);
  apply_in_place(kAddcdiv, {*this, a, b}, {value});
  return *this;
}

}  // namespace kernbench
