// Elementwise functions of one tensor and of numbers, and pow.

#include <cmath>
#include <limits>

#include "runtime/functional/arithmetic.h"
#include "runtime/functional/operators.h"

namespace kernbench {

using ops::Linearity;

namespace {

constexpr ElementwiseOperator kClamp{
    "clamp",
    Linearity::none,
    [](const Elements& of) { return of.tl.clamp(of.a(), of.numbers[0], of.numbers[1]); },
    Computes::in_f32,
    {Derivative{[](const Elements& of) {
                  const tl::Tensor is_inside =
                      (of.a() >= of.numbers[0]) * (of.a() <= of.numbers[1]);
                  return of.tl.where(is_inside, of.dy(), 0);
                },
                needs::kA}}};

constexpr ElementwiseOperator kExp =
    of_type(ResultType::floating,
            {"exp",
             Linearity::none,
             [](const Elements& of) { return of.tl.exp(of.a()); },
             Computes::in_own_type,
             {Derivative{[](const Elements& of) { return of.dy() * of.y(); }, needs::kResult}}});

constexpr ElementwiseOperator kLog =
    of_type(ResultType::floating,
            {"log",
             Linearity::none,
             [](const Elements& of) { return of.tl.log(of.a()); },
             Computes::in_own_type,
             {Derivative{[](const Elements& of) { return of.dy() / of.a(); }, needs::kA}}});

constexpr ElementwiseOperator kSqrt = of_type(
    ResultType::floating,
    {"sqrt",
     Linearity::none,
     [](const Elements& of) { return of.tl.sqrt(of.a()); },
     Computes::in_own_type,
     {Derivative{[](const Elements& of) { return of.dy() / (of.y() * 2.0); }, needs::kResult}}});

constexpr ElementwiseOperator kRsqrt = of_type(
    ResultType::floating,
    {"rsqrt",
     Linearity::none,
     [](const Elements& of) { return of.tl.rsqrt(of.a()); },
     Computes::in_own_type,
     {Derivative{[](const Elements& of) { return of.dy() * -0.5 * (of.y() * of.y() * of.y()); },
                 needs::kResult}}});

constexpr ElementwiseOperator kAbs{
    "abs",
    Linearity::none,
    [](const Elements& of) { return of.tl.abs(of.a()); },
    Computes::in_own_type,
    {Derivative{[](const Elements& of) {
                  return of.tl.where(of.a() > 0, of.dy(), of.tl.where(of.a() < 0, -of.dy(), 0));
                },
                needs::kA}}};

constexpr ElementwiseOperator kSquare{
    "square",
    Linearity::none,
    [](const Elements& of) { return of.a() * of.a(); },
    Computes::in_own_type,
    {Derivative{[](const Elements& of) { return of.dy() * (of.a() * 2.0); }, needs::kA}}};

// x to the power of a whole number, by squaring.
tl::Tensor whole_power(tl::Context& tl, const tl::Tensor& x, std::int64_t exponent) {
  if (exponent < 0) return 1 / whole_power(tl, x, -exponent);
  if (exponent == 0) return tl.full(x.shape(), 1, x.dtype());
  if (exponent == 1) return x;
  const tl::Tensor half = whole_power(tl, x, exponent / 2);
  return exponent % 2 == 0 ? half * half : half * half * x;
}

// Above 64 the squares' errors are larger than those of a logarithm.
constexpr double kMostFactors = 64;

tl::Tensor power(tl::Context& tl, const tl::Tensor& x, const Scalar& exponent) {
  if (is_integral(x.dtype())) return whole_power(tl, x, exponent.whole());
  const double real = exponent.real();
  if (real == 0.5) return tl.sqrt(x);
  if (real == -0.5) return tl.rsqrt(x);
  if (real != std::trunc(real)) {
    return tl.where(x == -HUGE_VAL, std::pow(-HUGE_VAL, real), tl.exp(tl.log(x) * real));
  }
  if (std::abs(real) <= kMostFactors) {
    return whole_power(tl, x, static_cast<std::int64_t>(real));
  }
  const tl::Tensor size = tl.exp(tl.log(tl.abs(x)) * real);
  return std::fmod(real, 2) == 0 ? size : tl.where(x < 0, -size, size);
}

constexpr ElementwiseOperator kPow{
    "pow",
    Linearity::none,
    [](const Elements& of) { return power(of.tl, of.a(), of.numbers[0]); },
    Computes::in_f32,
    {Derivative{[](const Elements& of) {
                  const double exponent = of.numbers[0].real();
                  if (exponent == 0) return of.dy() * 0.0;
                  return of.dy() * (power(of.tl, of.a(), exponent - 1) * exponent);
                },
                needs::kA}}};

// Whole numbers are multiples of 1, and even ones of 2.  From 2^23 on f32 has whole numbers alone,
// and infinity counts as one.
tl::Tensor is_multiple(tl::Context& tl, const tl::Tensor& x, double of) {
  const tl::Tensor quotient = x / of;
  return tl.maximum(tl.abs(quotient) >= 0x1p23,
                    tl.cast(tl.cast(quotient, DType::i64), DType::f32) == quotient);
}

// a to the power of b, as std::pow: a finite negative number has whole powers only, and of -0 and
// -infinity the odd ones have a sign.
tl::Tensor power(tl::Context& tl, const tl::Tensor& a, const tl::Tensor& b) {
  const tl::Tensor size = tl.abs(a);
  const tl::Tensor magnitude = tl.where((size == 1) * (b == b), 1, tl.exp(b * tl.log(size)));
  const tl::Tensor has_sign = tl.maximum(a < 0, 1 / a < 0);
  const tl::Tensor is_whole = is_multiple(tl, b, 1);
  const tl::Tensor is_odd = is_whole * (1 - is_multiple(tl, b, 2));
  const tl::Tensor is_real =
      tl.maximum(is_whole, 1 - (a < 0) * (size < std::numeric_limits<double>::infinity()));
  const tl::Tensor power = tl.where(has_sign * is_odd, -magnitude, magnitude);
  return tl.where(tl.maximum(a == 1, b == 0), 1, tl.where(is_real, power, std::nan("")));
}

constexpr ElementwiseOperator kPowTensors{
    "pow",
    Linearity::none,
    [](const Elements& of) { return power(of.tl, of.a(), of.b()); },
    Computes::in_f32,
    {Derivative{[](const Elements& of) {
                  const tl::Tensor slope = of.b() * power(of.tl, of.a(), of.b() - 1.0);
                  return of.tl.where(of.b() == 0, 0, of.dy() * slope);
                },
                needs::kA | needs::kB},
     Derivative{[](const Elements& of) {
                  const tl::Tensor is_flat = (of.a() == 0) * (of.b() >= 0);
                  return of.tl.where(is_flat, 0, of.dy() * of.y() * of.tl.log(of.a()));
                },
                needs::kA | needs::kB | needs::kResult}}};

}  // namespace

namespace {

// The ends of clamp(), of which one that is open takes no part in the choice of the type.
std::vector<Scalar> make_ends(const Tensor& x, const Scalar& min, const Scalar& max) {
  const auto end = [&](const Scalar& given) {
    if (!std::isinf(given.real())) {
      const bool is_whole = is_integral(x.dtype()) && is_integral(given.type());
      return is_whole ? as_element("clamp", given, x.dtype()) : given;
    }
    return Scalar::infinity(given.real() < 0 ? -1 : 1, x.dtype());
  };
  return {end(min), end(max)};
}

}  // namespace

Tensor clamp(const Tensor& x, const Scalar& min, const Scalar& max) {
  return apply(kClamp, {x}, make_ends(x, min, max));
}
Tensor exp(const Tensor& x) {
  return apply(kExp, {x});
}
Tensor log(const Tensor& x) {
  return apply(kLog, {x});
}
Tensor sqrt(const Tensor& x) {
  return apply(kSqrt, {x});
}
Tensor rsqrt(const Tensor& x) {
  return apply(kRsqrt, {x});
}
Tensor abs(const Tensor& x) {
  check_has_numbers("abs", {x});
  return apply(kAbs, {x});
}
Tensor reciprocal(const Tensor& x) {
  return 1 / x;
}
Tensor square(const Tensor& x) {
  if (x.dtype() == DType::boolean) return pow(x, 2);
  return apply(kSquare, {x});
}
Tensor pow(const Tensor& x, const Scalar& exponent) {
  if (is_integral(x.dtype()) && is_integral(exponent.type()) && exponent.whole() < 0) {
    ops::refuse_type("pow", "Integers to negative integer powers are not allowed.");
  }
  return apply(kPow, {x}, {exponent});
}

Tensor pow(const Tensor& x, const Tensor& exponent) {
  if (is_integral(x.dtype()) && is_integral(exponent.dtype())) {
    ops::refuse_type("pow",
                     "an integer to the power of a tensor of integers: convert one of them, "
                     "such as x.to(kb::DType::f32)");
  }
  return apply(kPowTensors, {x, exponent});
}
Tensor pow(const Scalar& base, const Tensor& exponent) {
  const bool is_whole = is_integral(exponent.dtype());
  return pow(where(exponent == exponent, base.real(), base.real()),
             is_whole ? exponent.to(DType::f32) : exponent)
      .to(is_whole ? DType::f32 : exponent.dtype());
}

const Tensor& Tensor::exp_() const {
  return apply_in_place(kExp, *this);
}
const Tensor& Tensor::log_() const {
  return apply_in_place(kLog, *this);
}
const Tensor& Tensor::sqrt_() const {
  return apply_in_place(kSqrt, *this);
}
const Tensor& Tensor::rsqrt_() const {
  return apply_in_place(kRsqrt, *this);
}
const Tensor& Tensor::abs_() const {
  return apply_in_place(kAbs, *this);
}
const Tensor& Tensor::square_() const {
  return apply_in_place(kSquare, *this);
}
const Tensor& Tensor::pow_(const Scalar& exponent) const {
  return apply_in_place(kPow, *this, {}, {exponent});
}
const Tensor& Tensor::clamp_(const Scalar& min, const Scalar& max) const {
  return apply_in_place(kClamp, *this, {}, make_ends(*this, min, max));
}
const Tensor& Tensor::reciprocal_() const {
  return apply_in_place(arithmetic::kNumberDiv, *this, {}, {1});
}

}  // namespace kernbench
