// The operations that compute values: on each element, along an axis, and products of matrices.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace kernbench::sim {

// Operations on each element, computed in f32 and then rounded once to the type of the result; but
// in integers modulo 2^64 if all operands are integral and the operation is of MathDomain::whole.
//
// - maximum, minimum and clamp are NaN if an operand is, and order -0 below +0, so that maximum and
//   minimum are commutative to the bit.
// - Comparisons yield 1 or 0.  A comparison with NaN yields 0, except for not_equal.
// - exp, log, ...: see transcendental.h.  sqrt is correctly rounded.
// - floor_divide is the quotient rounded towards -infinity, and remainder, which has the divisor's
//   sign, what it leaves, with one rounding: CPython's // and %.
//   Integers divided by 0 give -1 and leave themselves, as in RISC-V.
// - convert(a) is a, rounded to the type of the result.
// - fma(a, b, c) is a * b + c, rounded to f32 once.
// - clamp(a, low, high) is minimum(maximum(a, low), high).
// - select(mask, a, b) is a where the mask is not 0, else b.
// - bit_and, bit_or and bit_xor are of integers alone.
enum class MathOp : std::uint8_t {
#define KERNBENCH_MATH_OP(name, ...) name,
#include "sim_engine/values/math_ops.def"
};

inline constexpr std::size_t kMostOperands = 3;

// What an operation of integers computes in.
enum class MathDomain : std::uint8_t { whole, real };

struct MathOpRow {
  std::string_view name;
  std::size_t operand_count;
  MathDomain domain;
};
inline constexpr std::array kMathOps = {
#define KERNBENCH_MATH_OP(name, operands, domain, ...) \
  MathOpRow{#name, operands, MathDomain::domain},
#include "sim_engine/values/math_ops.def"
};

constexpr const MathOpRow& row_of(MathOp op) {
  return kMathOps[static_cast<std::size_t>(op)];
}
constexpr std::size_t operand_count(MathOp op) {
  return row_of(op).operand_count;
}
// True if the operation of integers is one: computed as such, and not in f32.
constexpr bool is_of_integers(MathOp op) {
  return row_of(op).domain == MathDomain::whole;
}
// "add", "subtract", ...
constexpr std::string_view name_of(MathOp op) {
  return row_of(op).name;
}

// Operations along one axis of a value.
//
// - sum: in f32.  Elements i + 16, i + 32, ... are added in order to i; then partial sum j + 8 is
//   added to j, j + 4 to j, j + 2 and j + 1; then one rounding to the type.  0 of no elements.
// - maximum, minimum: like the operations on elements.
// - softmax: exp(a - maximum) / sum of these, each step in f32 as above, one rounding at the end.
// - broadcast: repeats each element `length` times.
// - transpose: exchanges the axis with the dimensions inside it.
// - ramp: without an operand, the numbers 0, 1, 2, ... above a start.
enum class AxisOp : std::uint8_t { sum, maximum, minimum, softmax, broadcast, transpose, ramp };

inline constexpr std::size_t kAxisOpCount = 7;

// "sum", "maximum", ...
std::string_view name_of(AxisOp op);

// The place of an axis among the elements of a value: [outer][length][inner], stored row by row.
struct AxisForm {
  std::int64_t outer = 1;
  std::int64_t length = 0;
  std::int64_t inner = 1;

  std::int64_t count_with_axis() const { return outer * length * inner; }
  std::int64_t count_without_axis() const { return outer * inner; }
};

// True if the result has no such axis.
constexpr bool removes_axis(AxisOp op) {
  return op == AxisOp::sum || op == AxisOp::maximum || op == AxisOp::minimum;
}
// Return the number of elements that `op` reads and makes.
inline std::int64_t source_count(AxisOp op, const AxisForm& form) {
  if (op == AxisOp::ramp) return 0;
  return op == AxisOp::broadcast ? form.count_without_axis() : form.count_with_axis();
}
inline std::int64_t result_count(AxisOp op, const AxisForm& form) {
  return removes_axis(op) ? form.count_without_axis() : form.count_with_axis();
}

// A matrix product [m, k] x [k, n] -> [m, n].
struct GemmSize {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  friend bool operator==(const GemmSize&, const GemmSize&) = default;
};

// The activation applied to each element of a product.  gelu is x / 2 (1 + tanh(sqrt(2 / pi) (x +
// 0.044715 x^3))), torch's approximate='tanh'; silu is x sigmoid(x).
enum class Activation : std::uint8_t { none, relu, sigmoid, silu, gelu };

inline constexpr std::array kActivations = {Activation::none, Activation::relu, Activation::sigmoid,
                                            Activation::silu, Activation::gelu};

// "none", "relu", ...
std::string_view name_of(Activation activation);

}  // namespace kernbench::sim
