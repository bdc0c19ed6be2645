// What values are computed with: operations on each element, and operations along an axis.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace kernbench::sim {

// Element by element: in f32, then rounded once to the type of the result.
//
// - maximum, minimum and clamp are NaN if an operand is, and order -0 below +0: maximum and minimum
//   are commutative to the bit.
// - Comparisons are 1 or 0.  A comparison with NaN is 0, but for not_equal.
// - exp, log, rsqrt and sigmoid: see transcendental.h.  sqrt is correctly rounded.
// - convert(a) is a, rounded to the type of the result.
// - fma(a, b, c) is a * b + c, rounded to f32 once.
// - clamp(a, low, high) is minimum(maximum(a, low), high).
// - select(mask, a, b) is a where the mask is not 0, else b.
enum class MathOp : std::uint8_t {
  // of two operands
  add,
  subtract,
  multiply,
  divide,
  maximum,
  minimum,
  less,
  less_equal,
  greater,
  greater_equal,
  equal,
  not_equal,
  // of one
  negate,
  absolute,
  exp,
  log,
  sqrt,
  rsqrt,
  sigmoid,
  convert,
  // of three
  fma,
  clamp,
  select,
};

inline constexpr std::size_t kMathOpCount = 23;
inline constexpr std::size_t kMostOperands = 3;

constexpr std::size_t operand_count(MathOp op) {
  return op < MathOp::negate ? 2 : op < MathOp::fma ? 1 : 3;
}

// "add", "subtract", ...
std::string_view name_of(MathOp op);

// Along one axis of a value.
//
// - sum: in f32.  Elements i + 16, i + 32, ... are added in order to i; then partial sum j + 8 is
//   added to j, j + 4 to j, j + 2 and j + 1; then one rounding to the type.  0 of no elements.
// - maximum, minimum: as those of elements.
// - softmax: exp(a - maximum) / sum of these, each step in f32 as above, one rounding at the end.
// - broadcast: each element `length` times.
// - transpose: the axis and what is inside of it change places.
// - ramp: without an operand, the numbers 0, 1, 2, ... above a start.
enum class AxisOp : std::uint8_t { sum, maximum, minimum, softmax, broadcast, transpose, ramp };

inline constexpr std::size_t kAxisOpCount = 7;

// "sum", "maximum", ...
std::string_view name_of(AxisOp op);

// Where an axis lies among the elements of a value: [outer][length][inner], the last the closest.
struct AxisForm {
  std::int64_t outer = 1;
  std::int64_t length = 0;
  std::int64_t inner = 1;

  std::int64_t count_with_axis() const { return outer * length * inner; }
  std::int64_t count_without_axis() const { return outer * inner; }
};

// How many elements `op` reads and makes.
constexpr bool removes_axis(AxisOp op) {
  return op == AxisOp::sum || op == AxisOp::maximum || op == AxisOp::minimum;
}
inline std::int64_t source_count(AxisOp op, const AxisForm& form) {
  if (op == AxisOp::ramp) return 0;
  return op == AxisOp::broadcast ? form.count_without_axis() : form.count_with_axis();
}
inline std::int64_t result_count(AxisOp op, const AxisForm& form) {
  return removes_axis(op) ? form.count_without_axis() : form.count_with_axis();
}

}  // namespace kernbench::sim
