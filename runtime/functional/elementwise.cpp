#include <fmt/format.h>

#include <functional>

#include "runtime/autograd/autograd.h"
#include "runtime/functional/elementwise_operator.h"
#include "runtime/functional/operators.h"
#include "runtime/functional/shape_operators.h"
#include "runtime/tensor/strided_view.h"

namespace kernbench {

using ops::Linearity;

namespace {

constexpr auto kOwn = Computes::in_own_type;
constexpr auto kF32 = Computes::in_f32;

struct Equal : std::equal_to<> {
  static constexpr std::string_view kName = "eq";
};
struct NotEqual : std::not_equal_to<> {
  static constexpr std::string_view kName = "ne";
};
struct Less : std::less<> {
  static constexpr std::string_view kName = "lt";
};
struct LessEqual : std::less_equal<> {
  static constexpr std::string_view kName = "le";
};
struct Greater : std::greater<> {
  static constexpr std::string_view kName = "gt";
};
struct GreaterEqual : std::greater_equal<> {
  static constexpr std::string_view kName = "ge";
};

template <class Compare>
constexpr ElementwiseOperator kComparison =
    of_type(ResultType::boolean,
            {Compare::kName, Linearity::none,
             [](const Elements& of) { return tl::Tensor(Compare()(of.a(), of.b())); }, kOwn});
// The number is not rounded to the type of x.
template <class Compare>
constexpr ElementwiseOperator kComparisonWithNumber = of_type(
    ResultType::boolean,
    {Compare::kName, Linearity::none,
     [](const Elements& of) { return tl::Tensor(Compare()(of.a(), of.numbers[0])); }, kF32});

// 0 where the other one is chosen, half of dy where a and b are equal, else dy: both get it where
// one of them is NaN.
tl::Tensor gradient_of_choice(const Elements& of, const tl::Tensor& is_other) {
  return of.tl.where(of.a() == of.b(), of.dy() * 0.5, of.tl.where(is_other, 0, of.dy()));
}

constexpr unsigned kAB = needs::kA | needs::kB;

constexpr ElementwiseOperator kMaximum{
    "maximum",
    Linearity::none,
    [](const Elements& of) { return of.tl.maximum(of.a(), of.b()); },
    kOwn,
    {Derivative{[](const Elements& of) { return gradient_of_choice(of, of.b() > of.a()); }, kAB},
     Derivative{[](const Elements& of) { return gradient_of_choice(of, of.b() < of.a()); }, kAB}}};

constexpr ElementwiseOperator kMinimum{
    "minimum",
    Linearity::none,
    [](const Elements& of) { return of.tl.minimum(of.a(), of.b()); },
    kOwn,
    {Derivative{[](const Elements& of) { return gradient_of_choice(of, of.b() < of.a()); }, kAB},
     Derivative{[](const Elements& of) { return gradient_of_choice(of, of.b() > of.a()); }, kAB}}};

constexpr Derivative kWhereMask{[](const Elements& of) { return of.tl.where(of.a(), of.dy(), 0); },
                                needs::kA};
constexpr Derivative kWhereNoMask{
    [](const Elements& of) { return of.tl.where(of.a(), 0, of.dy()); }, needs::kA};

constexpr ElementwiseOperator kWhere{
    "where",
    Linearity::none,
    [](const Elements& of) { return of.tl.where(of.a(), of.b(), of.c()); },
    kOwn,
    {Derivative{}, kWhereMask, kWhereNoMask},
    needs::kA};
constexpr ElementwiseOperator kWhereElseNumber{
    "where",
    Linearity::none,
    [](const Elements& of) { return of.tl.where(of.a(), of.b(), of.numbers[0]); },
    kF32,
    {Derivative{}, kWhereMask},
    needs::kA};
constexpr ElementwiseOperator kWhereNumber{
    "where",
    Linearity::none,
    [](const Elements& of) { return of.tl.where(of.a(), of.numbers[0], of.b()); },
    kF32,
    {Derivative{}, kWhereNoMask},
    needs::kA};

constexpr ElementwiseOperator kMaskedFill{
    "masked_fill",
    Linearity::none,
    [](const Elements& of) { return of.tl.where(of.b(), of.numbers[0], of.a()); },
    kOwn,
    {Derivative{[](const Elements& of) { return of.tl.where(of.b(), 0, of.dy()); }, needs::kB}},
    needs::kB};

constexpr ElementwiseOperator kWhereNumbers{
    "where", Linearity::none,
    [](const Elements& of) { return of.tl.where(of.a(), of.numbers[0], of.numbers[1]); }, kF32};

}  // namespace

namespace {

// A whole number that is chosen instead of integers must be one of their type.
Scalar number_beside(const Tensor& x, const Scalar& number) {
  const bool is_whole = is_integral(number.type()) && number.type() != DType::boolean;
  const bool becomes_element = is_whole && is_integral(x.dtype()) && x.dtype() != DType::boolean;
  return becomes_element ? as_element("where", number, x.dtype()) : number;
}

}  // namespace

#define KERNBENCH_COMPARISON(op, Compare)                        \
  Tensor operator op(const Tensor& a, const Tensor& b) {         \
    return apply(kComparison<Compare>, {a, b});                  \
  }                                                              \
  Tensor operator op(const Tensor& x, const Scalar& number) {    \
    return apply(kComparisonWithNumber<Compare>, {x}, {number}); \
  }
KERNBENCH_COMPARISON(==, Equal)
KERNBENCH_COMPARISON(!=, NotEqual)
KERNBENCH_COMPARISON(<, Less)
KERNBENCH_COMPARISON(<=, LessEqual)
KERNBENCH_COMPARISON(>, Greater)
KERNBENCH_COMPARISON(>=, GreaterEqual)
#undef KERNBENCH_COMPARISON

Tensor maximum(const Tensor& a, const Tensor& b) {
  return apply(kMaximum, {a, b});
}
Tensor minimum(const Tensor& a, const Tensor& b) {
  return apply(kMinimum, {a, b});
}

namespace {

// Masks of u8 are torch's of old, and still taken.
const Tensor& checked_condition(const Tensor& mask) {
  if (mask.dtype() == DType::boolean || mask.dtype() == DType::u8) return mask;
  ops::refuse_type("where",
                   fmt::format("where expected condition to be a boolean tensor, but got a "
                               "tensor with dtype {}: write '{}' != 0",
                               torch_name_of(mask.dtype()), mask.name()));
}

}  // namespace

Tensor where(const Tensor& mask, const Tensor& a, const Tensor& b) {
  return apply(kWhere, {checked_condition(mask), a, b});
}
Tensor where(const Tensor& mask, const Tensor& a, const Scalar& b) {
  return apply(kWhereElseNumber, {checked_condition(mask), a}, {number_beside(a, b)});
}
Tensor where(const Tensor& mask, const Scalar& a, const Tensor& b) {
  return apply(kWhereNumber, {checked_condition(mask), b}, {number_beside(b, a)});
}
Tensor where(const Tensor& mask, const Scalar& a, const Scalar& b) {
  return apply(kWhereNumbers, {checked_condition(mask)}, {a, b});
}

Tensor masked_fill(const Tensor& x, const Tensor& mask, const Scalar& value) {
  return apply(kMaskedFill, {x, mask}, {as_element("masked_fill", value, x.dtype())});
}
const Tensor& Tensor::masked_fill_(const Tensor& mask, const Scalar& value) const {
  return apply_in_place(kMaskedFill, *this, {mask}, {as_element("masked_fill_", value, dtype())});
}
namespace {

constexpr ElementwiseOperator kBitAnd{"bitwise_and", Linearity::none,
                                      [](const Elements& of) { return of.a() & of.b(); }, kOwn};
constexpr ElementwiseOperator kBitOr{"bitwise_or", Linearity::none,
                                     [](const Elements& of) { return of.a() | of.b(); }, kOwn};
constexpr ElementwiseOperator kBitXor{"bitwise_xor", Linearity::none,
                                      [](const Elements& of) { return of.a() ^ of.b(); }, kOwn};

constexpr ElementwiseOperator kBitAndNumber{
    "bitwise_and", Linearity::none, [](const Elements& of) { return of.a() & of.numbers[0]; },
    kOwn};
constexpr ElementwiseOperator kBitOrNumber{
    "bitwise_or", Linearity::none, [](const Elements& of) { return of.a() | of.numbers[0]; }, kOwn};
constexpr ElementwiseOperator kBitXorNumber{
    "bitwise_xor", Linearity::none, [](const Elements& of) { return of.a() ^ of.numbers[0]; },
    kOwn};

void check_has_bits(std::string_view name, DType dtype) {
  if (is_integral(dtype)) return;
  ops::refuse_type(name,
                   fmt::format("\"{}_cpu\" not implemented for '{}'", name, torch_name_of(dtype)));
}

Tensor apply_to_bits(const ElementwiseOperator& op, const Tensor& a, const Tensor& b) {
  for (const Tensor& operand : {a, b}) check_has_bits(op.name, operand.dtype());
  return apply(op, {a, b});
}
Tensor apply_to_bits(const ElementwiseOperator& op, const Tensor& x, const Scalar& number) {
  for (const DType dtype : {x.dtype(), number.type()}) check_has_bits(op.name, dtype);
  return apply(op, {x}, {number});
}

}  // namespace

Tensor operator&(const Tensor& a, const Tensor& b) {
  return apply_to_bits(kBitAnd, a, b);
}
Tensor operator|(const Tensor& a, const Tensor& b) {
  return apply_to_bits(kBitOr, a, b);
}
Tensor operator^(const Tensor& a, const Tensor& b) {
  return apply_to_bits(kBitXor, a, b);
}
Tensor operator&(const Tensor& x, const Scalar& number) {
  return apply_to_bits(kBitAndNumber, x, number);
}
Tensor operator|(const Tensor& x, const Scalar& number) {
  return apply_to_bits(kBitOrNumber, x, number);
}
Tensor operator^(const Tensor& x, const Scalar& number) {
  return apply_to_bits(kBitXorNumber, x, number);
}
Tensor operator~(const Tensor& x) {
  if (!is_integral(x.dtype())) {
    ops::refuse_type(
        "~", fmt::format("~ (operator.invert) is only implemented on integer and Boolean-type "
                         "tensors, not on {}",
                         torch_name_of(x.dtype())));
  }
  return x.dtype() == DType::boolean ? logical_not(x) : -1 - x;
}
Tensor logical_not(const Tensor& x) {
  return x == 0;
}
Tensor logical_and(const Tensor& a, const Tensor& b) {
  return (a != 0) & (b != 0);
}
Tensor logical_or(const Tensor& a, const Tensor& b) {
  return (a != 0) | (b != 0);
}

Tensor logical_xor(const Tensor& a, const Tensor& b) {
  return (a != 0) ^ (b != 0);
}

Tensor clone(const Tensor& x) {
  ops::check_operands("clone", {x}, ops::Types::any);
  if (runtime::is_strided(x)) return contiguous(x);
  return autograd::record("clone", ops::make_copy(x), {x},
                          [](const Tensor& dy) { return std::vector{dy}; });
}

Tensor to(const Tensor& of, DType dtype) {
  ops::check_operands("to", {of}, ops::Types::any);
  if (of.dtype() == dtype) return of;
  const Tensor x = contiguous(of);
  return autograd::record(
      "to", ops::converted(x, dtype), {x},
      [dtype = x.dtype()](const Tensor& dy) { return std::vector{ops::converted(dy, dtype)}; });
}

}  // namespace kernbench
