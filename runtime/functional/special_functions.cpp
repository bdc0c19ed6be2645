// Trigonometric functions, other exponentials and logarithms, and functions of several tensors.

#include <array>
#include <cmath>
#include <numbers>

#include "runtime/functional/elementwise_operator.h"
#include "runtime/functional/functional.h"
#include "runtime/functional/operators.h"

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
tl::Tensor compute_log1p(tl::Context& tl, const tl::Tensor& x) {
  const tl::Tensor sum = x + 1.0;
  const tl::Tensor kept = sum - 1.0;
  const tl::Tensor y = tl.log(sum) * (x / kept);
  return tl.where(kept == 0, x, tl.where(sum == HUGE_VAL, sum, y));
}
tl::Tensor compute_expm1(tl::Context& tl, const tl::Tensor& x) {
  const tl::Tensor power = tl.exp(x);
  const tl::Tensor kept = power - 1.0;
  const tl::Tensor y = kept * (x / tl.log(power));
  const tl::Tensor is_end = tl.maximum(power == HUGE_VAL, kept == -1.0);
  return tl.where(kept == 0, x, tl.where(is_end, kept, y));
}

constexpr ElementwiseOperator kLog1p =
    real("log1p", [](const Elements& of) { return compute_log1p(of.tl, of.a()); },
         {[](const Elements& of) { return of.dy() / (of.a() + 1.0); }, needs::kA});

constexpr ElementwiseOperator kExpm1 =
    real("expm1", [](const Elements& of) { return compute_expm1(of.tl, of.a()); },
         {[](const Elements& of) { return of.dy() * (of.y() + 1.0); }, needs::kResult});

constexpr ElementwiseOperator kLog10 =
    real("log10",
         [](const Elements& of) {
           return of.tl.log2(of.a()) * (std::numbers::ln2 / std::numbers::ln10);
         },
         {[](const Elements& of) { return of.dy() / (of.a() * std::numbers::ln10); }, needs::kA});

// Above tan(pi / 8) and tan(3 pi / 8) the argument is turned by 45 and by 90 degrees; below, four
// terms are within a few roundings of f32 (Moshier, Cephes, atanf).
tl::Tensor compute_atan(tl::Context& tl, const tl::Tensor& x) {
  constexpr std::array kTerms = {8.05374449538e-2, -1.38776856032e-1, 1.99777106478e-1,
                                 -3.33329491539e-1};
  const tl::Tensor size = tl.abs(x);
  const tl::Tensor is_far = size > 2.414213562373095;
  const tl::Tensor is_near = size <= 0.4142135623730950;
  const tl::Tensor turned = tl.where(is_far, -1 / size, (size - 1.0) / (size + 1.0));
  const tl::Tensor t = tl.where(is_near, size, turned);
  const tl::Tensor from =
      tl.where(is_near, 0, tl.where(is_far, std::numbers::pi / 2, std::numbers::pi / 4));
  const tl::Tensor square = t * t;
  tl::Tensor sum = tl.fma(square, kTerms[0], kTerms[1]);
  for (std::size_t i = 2; i < kTerms.size(); ++i) sum = tl.fma(sum, square, kTerms[i]);
  const tl::Tensor angle = from + tl.fma(sum * square, t, t);
  // The quotients are NaN for an infinity, whose angle is pi / 2, and -0 must stay -0.
  const tl::Tensor whole = tl.where(size == HUGE_VAL, std::numbers::pi / 2, angle);
  return tl.where(x < 0, -whole, tl.where(x == 0, x, whole));
}
// The cosine of an angle of this sine; no digits cancel where x is near 1.
tl::Tensor compute_cosine(tl::Context& tl, const tl::Tensor& x) {
  return tl.sqrt((1 - x) * (1 + x));
}

constexpr ElementwiseOperator kAtan =
    real("atan", [](const Elements& of) { return compute_atan(of.tl, of.a()); },
         {[](const Elements& of) { return of.dy() / of.tl.fma(of.a(), of.a(), 1); }, needs::kA});

constexpr ElementwiseOperator kAsin = real(
    "asin",
    [](const Elements& of) { return compute_atan(of.tl, of.a() / compute_cosine(of.tl, of.a())); },
    {[](const Elements& of) { return of.dy() / compute_cosine(of.tl, of.a()); }, needs::kA});

constexpr ElementwiseOperator kAcos =
    real("acos",
         [](const Elements& of) {
           return compute_atan(of.tl, of.tl.sqrt((1 - of.a()) / (1 + of.a()))) * 2.0;
         },
         {[](const Elements& of) { return -of.dy() / compute_cosine(of.tl, of.a()); }, needs::kA});

// Halves of e^|x| and of its reciprocal.  The root of the former is squared, since it is finite
// where twice the result would not be.
struct HalfPowers {
  tl::Tensor grown;
  tl::Tensor shrunk;

  static HalfPowers of(tl::Context& tl, const tl::Tensor& size) {
    const tl::Tensor root = tl.exp(size * 0.5);
    return {root * 0.5 * root, tl.exp(-size) * 0.5};
  }
};
tl::Tensor compute_cosh(tl::Context& tl, const tl::Tensor& x) {
  const HalfPowers halves = HalfPowers::of(tl, tl.abs(x));
  return halves.grown + halves.shrunk;
}
// Below 1 the difference would lose digits: there it is (d + d / (d + 1)) / 2 for d = e^|x| - 1.
tl::Tensor compute_sinh(tl::Context& tl, const tl::Tensor& x) {
  const tl::Tensor size = tl.abs(x);
  const HalfPowers halves = HalfPowers::of(tl, size);
  const tl::Tensor more = compute_expm1(tl, tl.minimum(size, 1));
  const tl::Tensor near = (more + more / (more + 1.0)) * 0.5;
  const tl::Tensor y = tl.where(size < 1, near, halves.grown - halves.shrunk);
  return tl.where(x < 0, -y, tl.where(x == 0, x, y));
}

constexpr ElementwiseOperator kSinh =
    real("sinh", [](const Elements& of) { return compute_sinh(of.tl, of.a()); },
         {[](const Elements& of) { return of.dy() * compute_cosh(of.tl, of.a()); }, needs::kA});

constexpr ElementwiseOperator kCosh =
    real("cosh", [](const Elements& of) { return compute_cosh(of.tl, of.a()); },
         {[](const Elements& of) { return of.dy() * compute_sinh(of.tl, of.a()); }, needs::kA});

// Squares of what is larger are infinite, and the 1 beside them is below their last digit.
constexpr double kHuge = 1e18;

// log(x + sqrt(x^2 + 1)) as log1p(x + x^2 / (1 + sqrt(x^2 + 1))), which loses no digit near 0.
tl::Tensor compute_asinh(tl::Context& tl, const tl::Tensor& x) {
  const tl::Tensor size = tl.abs(x);
  const tl::Tensor square = size * size;
  const tl::Tensor near = compute_log1p(tl, size + square / (tl.sqrt(square + 1.0) + 1.0));
  const tl::Tensor y = tl.where(size < kHuge, near, tl.log(size) + std::numbers::ln2);
  return tl.where(x < 0, -y, tl.where(x == 0, x, y));
}
// log(x + sqrt(x^2 - 1)), with t = x - 1.
tl::Tensor compute_acosh(tl::Context& tl, const tl::Tensor& x) {
  const tl::Tensor t = x - 1.0;
  const tl::Tensor near = compute_log1p(tl, t + tl.sqrt(t * (t + 2.0)));
  return tl.where(x < kHuge, near, tl.log(x) + std::numbers::ln2);
}
// log((1 + x) / (1 - x)) / 2.
tl::Tensor compute_atanh(tl::Context& tl, const tl::Tensor& x) {
  const tl::Tensor size = tl.abs(x);
  const tl::Tensor y = compute_log1p(tl, size * 2.0 / (1 - size)) * 0.5;
  return tl.where(x < 0, -y, tl.where(x == 0, x, y));
}

constexpr ElementwiseOperator kAsinh = real(
    "asinh", [](const Elements& of) { return compute_asinh(of.tl, of.a()); },
    {[](const Elements& of) { return of.dy() * of.tl.rsqrt(of.a() * of.a() + 1.0); }, needs::kA});

constexpr ElementwiseOperator kAcosh = real(
    "acosh", [](const Elements& of) { return compute_acosh(of.tl, of.a()); },
    {[](const Elements& of) { return of.dy() * of.tl.rsqrt(of.a() * of.a() - 1.0); }, needs::kA});

constexpr ElementwiseOperator kAtanh =
    real("atanh", [](const Elements& of) { return compute_atanh(of.tl, of.a()); },
         {[](const Elements& of) { return of.dy() / (1 - of.a() * of.a()); }, needs::kA});

// log(1 + exp(x)), of which the exponential of a large x is too large.
constexpr ElementwiseOperator kSoftplus{
    "softplus",
    Linearity::none,
    [](const Elements& of) {
      return of.tl.maximum(of.a(), 0) + compute_log1p(of.tl, of.tl.exp(-of.tl.abs(of.a())));
    },
    Computes::in_f32,
    {Derivative{[](const Elements& of) { return of.dy() * of.tl.sigmoid(of.a()); }, needs::kA}}};

// -softplus(-x).
constexpr ElementwiseOperator kLogSigmoid{
    "logsigmoid",
    Linearity::none,
    [](const Elements& of) {
      return of.tl.minimum(of.a(), 0) - compute_log1p(of.tl, of.tl.exp(-of.tl.abs(of.a())));
    },
    Computes::in_f32,
    {Derivative{[](const Elements& of) { return of.dy() * of.tl.sigmoid(-of.a()); }, needs::kA}}};

constexpr ElementwiseOperator kElu{
    "elu",
    Linearity::none,
    [](const Elements& of) {
      const tl::Tensor below = compute_expm1(of.tl, of.tl.minimum(of.a(), 0)) * of.numbers[0];
      return of.tl.where(of.a() > 0, of.a(), below);
    },
    Computes::in_f32,
    {Derivative{[](const Elements& of) {
                  const tl::Tensor slope = of.tl.exp(of.tl.minimum(of.a(), 0)) * of.numbers[0];
                  return of.tl.where(of.a() > 0, of.dy(), of.dy() * slope);
                },
                needs::kA}}};

// The larger one stands in front of the root, so that no square is too large.
tl::Tensor compute_hypot(tl::Context& tl, const tl::Tensor& a, const tl::Tensor& b) {
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
             [](const Elements& of) { return compute_hypot(of.tl, of.a(), of.b()); },
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

#define KERNBENCH_UNARY(name, op) \
  Tensor name(const Tensor& x) {  \
    return apply(op, {x});        \
  }
KERNBENCH_UNARY(sin, kSin)
KERNBENCH_UNARY(cos, kCos)
KERNBENCH_UNARY(tan, kTan)
KERNBENCH_UNARY(erf, kErf)
KERNBENCH_UNARY(exp2, kExp2)
KERNBENCH_UNARY(log2, kLog2)
KERNBENCH_UNARY(log1p, kLog1p)
KERNBENCH_UNARY(expm1, kExpm1)
KERNBENCH_UNARY(log10, kLog10)
KERNBENCH_UNARY(asin, kAsin)
KERNBENCH_UNARY(acos, kAcos)
KERNBENCH_UNARY(atan, kAtan)
KERNBENCH_UNARY(sinh, kSinh)
KERNBENCH_UNARY(cosh, kCosh)
KERNBENCH_UNARY(asinh, kAsinh)
KERNBENCH_UNARY(acosh, kAcosh)
KERNBENCH_UNARY(atanh, kAtanh)
#undef KERNBENCH_UNARY

Tensor nn::functional::logsigmoid(const Tensor& x) {
  ops::check_is_floating("logsigmoid", x);
  return apply(kLogSigmoid, {x});
}
Tensor nn::functional::elu(const Tensor& x, double alpha) {
  ops::check_is_floating("elu", x);
  return apply(kElu, {x}, {alpha});
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
  return apply_in_place(kLerp, *this, {end}, {weight});
}
const Tensor& Tensor::addcmul_(const Tensor& a, const Tensor& b, const Scalar& value) const {
  check_has_numbers("addcmul_", {*this, a, b});
  return apply_in_place(kAddcmul, *this, {a, b}, {value});
}
const Tensor& Tensor::addcdiv_(const Tensor& a, const Tensor& b, const Scalar& value) const {
  check_divides_reals("addcdiv_", a, b);
  return apply_in_place(kAddcdiv, *this, {a, b}, {value});
}

}  // namespace kernbench
