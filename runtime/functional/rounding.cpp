// Rounding, signs, remainders, and what kind of number an element is.

#include <cmath>

#include "runtime/functional/elementwise_operator.h"
#include "runtime/functional/operators.h"

namespace kernbench {

using ops::Linearity;

namespace {

// The slope of a function that is constant but for steps.
constexpr Derivative kFlat{
    [](const Elements& of) { return of.tl.zeros(of.dy().shape(), of.dy().dtype()); },
    needs::kNothing, Computes::in_own_type};

// Integers stay as they are.
template <tl::Tensor (*function)(tl::Context&, const tl::Tensor&)>
tl::Tensor of_reals(const Elements& of) {
  return is_integral(of.a().dtype()) ? of.a() : function(of.tl, of.a());
}

tl::Tensor compute_floor(tl::Context& tl, const tl::Tensor& x) {
  return tl.floor(x);
}
tl::Tensor compute_ceil(tl::Context& tl, const tl::Tensor& x) {
  return -tl.floor(-x);
}
tl::Tensor compute_trunc(tl::Context& tl, const tl::Tensor& x) {
  return tl.where(x < 0, compute_ceil(tl, x), tl.floor(x));
}
// From 2^23 on f32 has no fractions, so adding 2^23 rounds to a whole number, and ties to the even
// one.
tl::Tensor compute_round(tl::Context& tl, const tl::Tensor& x) {
  constexpr double kWhole = 0x1p23;
  const tl::Tensor size = tl.abs(x);
  const tl::Tensor whole = size + kWhole - kWhole;
  const tl::Tensor is_whole = tl.maximum(size >= kWhole, x == 0);
  return tl.where(is_whole, x, tl.where(x < 0, -whole, whole));
}

template <tl::Tensor (*function)(tl::Context&, const tl::Tensor&)>
constexpr ElementwiseOperator rounding(std::string_view name) {
  return {name, Linearity::none, of_reals<function>, Computes::in_f32, {kFlat}};
}
constexpr ElementwiseOperator kFloor = rounding<compute_floor>("floor");
constexpr ElementwiseOperator kCeil = rounding<compute_ceil>("ceil");
constexpr ElementwiseOperator kTrunc = rounding<compute_trunc>("trunc");
constexpr ElementwiseOperator kRound = rounding<compute_round>("round");

constexpr ElementwiseOperator kSign{
    "sign",
    Linearity::none,
    [](const Elements& of) { return tl::Tensor((of.a() > 0) - (of.a() < 0)); },
    Computes::in_own_type,
    {kFlat}};

constexpr ElementwiseOperator kFloorDivide{
    "floor_divide",
    Linearity::none,
    [](const Elements& of) { return of.tl.floor_divide(of.a(), of.b()); },
    Computes::in_f32,
    {kFlat, kFlat}};
constexpr ElementwiseOperator kFloorDivideNumber{
    "floor_divide",
    Linearity::none,
    [](const Elements& of) { return of.tl.floor_divide(of.a(), of.numbers[0]); },
    Computes::in_f32,
    {kFlat}};

constexpr ElementwiseOperator kRemainder{
    "remainder",
    Linearity::none,
    [](const Elements& of) { return of.tl.remainder(of.a(), of.b()); },
    Computes::in_f32,
    {kIdentity,
     Derivative{[](const Elements& of) { return -of.dy() * of.tl.floor_divide(of.a(), of.b()); },
                needs::kA | needs::kB}}};
constexpr ElementwiseOperator kRemainderNumber{
    "remainder",
    Linearity::none,
    [](const Elements& of) { return of.tl.remainder(of.a(), of.numbers[0]); },
    Computes::in_f32,
    {kIdentity}};

// The result has the sign of a, that of -0 too.  The remainder of the sizes does not depend on
// signs; that of a 0 is 0 or NaN.
template <class B>
tl::Tensor compute_fmod(tl::Context& tl, const tl::Tensor& a, const B& size_of_b) {
  const tl::Tensor size = tl.remainder(tl.abs(a), size_of_b);
  return tl.where(a == 0, a * size, tl.where(a < 0, -size, size));
}
// Of integers the least one has no size of its type.  The remainder has the sign of b, and b less
// that of a.
tl::Tensor compute_whole_fmod(tl::Context& tl, const tl::Tensor& a, const tl::Tensor& b) {
  const tl::Tensor rest = tl.remainder(a, b);
  const tl::Tensor signs_differ = (a < 0) != (b < 0);
  return tl.where((rest != 0) * signs_differ, rest - b, rest);
}
constexpr ElementwiseOperator kFmod{
    "fmod",
    Linearity::none,
    [](const Elements& of) {
      if (is_integral(of.a().dtype())) return compute_whole_fmod(of.tl, of.a(), of.b());
      return compute_fmod(of.tl, of.a(), of.tl.abs(of.b()));
    },
    Computes::in_f32,
    {kIdentity,
     Derivative{[](const Elements& of) { return -of.dy() * compute_trunc(of.tl, of.a() / of.b()); },
                needs::kA | needs::kB}}};
constexpr ElementwiseOperator kFmodNumber{
    "fmod",
    Linearity::none,
    [](const Elements& of) {
      if (is_integral(of.a().dtype())) {
        const tl::Tensor b = of.tl.full(of.a().shape(), of.numbers[0], of.a().dtype());
        return compute_whole_fmod(of.tl, of.a(), b);
      }
      const Scalar& number = of.numbers[0];
      return compute_fmod(of.tl, of.a(), number.real() < 0 ? -number : number);
    },
    Computes::in_f32,
    {kIdentity}};

constexpr ElementwiseOperator kIsNan =
    of_type(ResultType::boolean, {"isnan", Linearity::none,
                                  [](const Elements& of) { return tl::Tensor(of.a() != of.a()); },
                                  Computes::in_own_type});
constexpr ElementwiseOperator kIsInf =
    of_type(ResultType::boolean,
            {"isinf", Linearity::none,
             [](const Elements& of) { return tl::Tensor(of.tl.abs(of.a()) == HUGE_VAL); },
             Computes::in_f32});
constexpr ElementwiseOperator kIsFinite =
    of_type(ResultType::boolean,
            {"isfinite", Linearity::none,
             [](const Elements& of) { return tl::Tensor(of.tl.abs(of.a()) < HUGE_VAL); },
             Computes::in_f32});

Tensor apply_to_numbers(const ElementwiseOperator& op, const std::vector<Tensor>& operands) {
  check_has_numbers(op.name, operands);
  return apply(op, operands);
}
Tensor apply_to_numbers(const ElementwiseOperator& op, const Tensor& x, const Scalar& number) {
  if (number.type() == DType::boolean) check_has_numbers(op.name, {x});
  return apply(op, {x}, {number});
}

}  // namespace

Tensor floor(const Tensor& x) {
  return apply_to_numbers(kFloor, {x});
}
Tensor ceil(const Tensor& x) {
  return apply_to_numbers(kCeil, {x});
}
Tensor trunc(const Tensor& x) {
  return apply_to_numbers(kTrunc, {x});
}
Tensor round(const Tensor& x) {
  return apply_to_numbers(kRound, {x});
}
Tensor sign(const Tensor& x) {
  return x.dtype() == DType::boolean ? clone(x) : apply(kSign, {x});
}

Tensor floor_divide(const Tensor& a, const Tensor& b) {
  return apply_to_numbers(kFloorDivide, {a, b});
}
Tensor floor_divide(const Tensor& x, const Scalar& number) {
  return apply_to_numbers(kFloorDivideNumber, x, number);
}
Tensor remainder(const Tensor& a, const Tensor& b) {
  return apply_to_numbers(kRemainder, {a, b});
}
Tensor remainder(const Tensor& x, const Scalar& number) {
  return apply_to_numbers(kRemainderNumber, x, number);
}
Tensor fmod(const Tensor& a, const Tensor& b) {
  return apply_to_numbers(kFmod, {a, b});
}
Tensor fmod(const Tensor& x, const Scalar& number) {
  return apply_to_numbers(kFmodNumber, x, number);
}

Tensor isnan(const Tensor& x) {
  return apply(kIsNan, {x});
}
Tensor isinf(const Tensor& x) {
  return is_integral(x.dtype()) ? isnan(x) : apply(kIsInf, {x});
}
Tensor isfinite(const Tensor& x) {
  return is_integral(x.dtype()) ? x == x : apply(kIsFinite, {x});
}

}  // namespace kernbench
