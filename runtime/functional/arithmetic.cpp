// + - * / of tensors and numbers.

#include "runtime/functional/arithmetic.h"

#include <fmt/format.h>

#include <cmath>

#include "runtime/functional/operators.h"
#include "runtime/ops/result_type.h"

namespace kernbench {

using ops::Linearity;

namespace arithmetic {

namespace {

constexpr auto kOwn = Computes::in_own_type;
constexpr auto kF32 = Computes::in_f32;

constexpr Derivative kNegated{[](const Elements& of) { return -of.dy(); }, needs::kNothing, kOwn};
constexpr Derivative kTimesNumber{[](const Elements& of) { return of.dy() * of.numbers[0]; }};

}  // namespace

constexpr ElementwiseOperator kAdd{"add",
                                   Linearity::together,
                                   [](const Elements& of) { return of.a() + of.b(); },
                                   kOwn,
                                   {kIdentity, kIdentity}};

constexpr ElementwiseOperator kAddScaled{
    "add",
    Linearity::together,
    [](const Elements& of) { return of.tl.fma(of.b(), of.numbers[0], of.a()); },
    kF32,
    {kIdentity, kTimesNumber}};

constexpr ElementwiseOperator kSub{"sub",
                                   Linearity::together,
                                   [](const Elements& of) { return of.a() - of.b(); },
                                   kOwn,
                                   {kIdentity, kNegated}};

constexpr ElementwiseOperator kMul{
    "mul",
    Linearity::each,
    [](const Elements& of) { return of.a() * of.b(); },
    kOwn,
    {Derivative{[](const Elements& of) { return of.dy() * of.b(); }, needs::kB, kOwn},
     Derivative{[](const Elements& of) { return of.dy() * of.a(); }, needs::kA, kOwn}}};

constexpr ElementwiseOperator kDiv =
    of_type(ResultType::floating,
            {"div",
             Linearity::first,
             [](const Elements& of) { return of.a() / of.b(); },
             kOwn,
             {Derivative{[](const Elements& of) { return of.dy() / of.b(); }, needs::kB, kOwn},
              Derivative{[](const Elements& of) { return -of.dy() * (of.a() / of.b() / of.b()); },
                         needs::kA | needs::kB}}});

constexpr ElementwiseOperator kNeg{
    "neg", Linearity::each, [](const Elements& of) { return -of.a(); }, kOwn, {kNegated}};

constexpr ElementwiseOperator kAddNumber{"add",
                                         Linearity::none,
                                         [](const Elements& of) { return of.a() + of.numbers[0]; },
                                         kF32,
                                         {kIdentity}};

constexpr ElementwiseOperator kNumberSub{"rsub",
                                         Linearity::none,
                                         [](const Elements& of) { return of.numbers[0] - of.a(); },
                                         kF32,
                                         {kNegated}};

constexpr ElementwiseOperator kScale{"scale",
                                     Linearity::each,
                                     [](const Elements& of) { return of.a() * of.numbers[0]; },
                                     kF32,
                                     {kTimesNumber}};

constexpr ElementwiseOperator kDivNumber =
    of_type(ResultType::floating,
            {"div",
             Linearity::each,
             [](const Elements& of) { return of.a() / of.numbers[0]; },
             kF32,
             {Derivative{[](const Elements& of) { return of.dy() / of.numbers[0]; }}}});

constexpr ElementwiseOperator kNumberDiv = of_type(
    ResultType::floating,
    {"div",
     Linearity::none,
     [](const Elements& of) { return of.numbers[0] / of.a(); },
     kF32,
     {Derivative{[](const Elements& of) { return -of.dy() * (of.numbers[0] / of.a() / of.a()); },
                 needs::kA}}});

Scalar to_alpha(const Tensor& a, const Tensor& b, double alpha) {
  const bool are_integral = is_integral(a.dtype()) && is_integral(b.dtype());
  if (alpha == std::trunc(alpha) && std::abs(alpha) <= 0x1p53) {
    const auto whole = static_cast<std::int64_t>(alpha);
    if (are_integral) as_element("add", whole, ops::promoted("add", a.dtype(), b.dtype()));
    return whole;
  }
  if (are_integral) {
    ops::refuse_type("add",
                     "For integral input tensors, argument alpha must not be a floating "
                     "point number.");
  }
  return alpha;
}

void check_is_no_bool(std::string_view name, const Tensor& x) {
  if (x.dtype() != DType::boolean) return;
  ops::refuse_type(name,
                   fmt::format("{} a bool tensor is not supported. If you are trying to invert a "
                               "mask, use the `~` or `logical_not()` operator instead.",
                               name == "neg" ? "Negation, the `-` operator, on"
                                             : "Subtraction, the `-` operator, with"));
}

namespace {

void check_is_not_of_bools(const Tensor& a, const Tensor& b) {
  if (a.dtype() != DType::boolean || b.dtype() != DType::boolean) return;
  ops::refuse_type("sub",
                   "Subtraction, the `-` operator, with two bool tensors is not supported. Use the "
                   "`^` or `logical_xor()` operator instead.");
}

}  // namespace

}  // namespace arithmetic

Tensor operator+(const Tensor& a, const Tensor& b) {
  return apply(arithmetic::kAdd, {a, b});
}
Tensor operator-(const Tensor& a, const Tensor& b) {
  arithmetic::check_is_not_of_bools(a, b);
  return apply(arithmetic::kSub, {a, b});
}
Tensor operator*(const Tensor& a, const Tensor& b) {
  return apply(arithmetic::kMul, {a, b});
}
Tensor operator/(const Tensor& a, const Tensor& b) {
  return apply(arithmetic::kDiv, {a, b});
}
Tensor operator-(const Tensor& x) {
  arithmetic::check_is_no_bool("neg", x);
  return apply(arithmetic::kNeg, {x});
}
Tensor operator+(const Tensor& x, const Scalar& number) {
  return apply(arithmetic::kAddNumber, {x}, {number});
}
Tensor operator+(const Scalar& number, const Tensor& x) {
  return x + number;
}
Tensor operator-(const Tensor& x, const Scalar& number) {
  arithmetic::check_is_no_bool("sub", x);
  return x + -number;
}
Tensor operator-(const Scalar& number, const Tensor& x) {
  arithmetic::check_is_no_bool("sub", x);
  return apply(arithmetic::kNumberSub, {x}, {number});
}
Tensor operator*(const Tensor& x, const Scalar& number) {
  return apply(arithmetic::kScale, {x}, {number});
}
Tensor operator*(const Scalar& number, const Tensor& x) {
  return x * number;
}
Tensor operator/(const Tensor& x, const Scalar& number) {
  return apply(arithmetic::kDivNumber, {x}, {number});
}
Tensor operator/(const Scalar& number, const Tensor& x) {
  return apply(arithmetic::kNumberDiv, {x}, {number});
}
Tensor add(const Tensor& a, const Tensor& b, double alpha) {
  if (alpha == 1) return a + b;
  return apply(arithmetic::kAddScaled, {a, b}, {arithmetic::to_alpha(a, b, alpha)});
}
Tensor sub(const Tensor& a, const Tensor& b, double alpha) {
  return alpha == 1 ? a - b : add(a, b, -alpha);
}
Tensor add(const Tensor& x, const Scalar& number) {
  return x + number;
}
Tensor sub(const Tensor& x, const Scalar& number) {
  return x - number;
}
Tensor mul(const Tensor& a, const Tensor& b) {
  return a * b;
}
Tensor mul(const Tensor& x, const Scalar& number) {
  return x * number;
}
Tensor div(const Tensor& a, const Tensor& b) {
  return a / b;
}
Tensor div(const Tensor& x, const Scalar& number) {
  return x / number;
}
Tensor neg(const Tensor& x) {
  return -x;
}

}  // namespace kernbench
