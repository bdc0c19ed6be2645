#include "sim_engine/values/elementwise.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>

#include "sim_engine/values/transcendental.h"

namespace kernbench::sim {

namespace {

// A bijection under which floats that are not NaN are ordered as integers, -0 below +0.
std::int32_t to_ordered_bits(std::int32_t bits) {
  return bits ^ ((bits >> 31) & 0x7fff'ffff);
}

constexpr std::int32_t kQuietNan = 0x7fc0'0000;

bool is_nan(std::int32_t bits) {
  return (bits & 0x7fff'ffff) > 0x7f80'0000;
}

// std::max and std::min depend on the order of the operands for zeros and NaN.  On integers and
// without branches, so that the loop is vectorised.
template <class Choose>
void choose_elements(Choose choose, const float* a, const float* b, float* out,
                     std::int64_t count) {
  std::transform(a, a + count, b, out, [choose](float left, float right) {
    const auto x = std::bit_cast<std::int32_t>(left);
    const auto y = std::bit_cast<std::int32_t>(right);
    const std::int32_t chosen = to_ordered_bits(choose(to_ordered_bits(x), to_ordered_bits(y)));
    return std::bit_cast<float>(is_nan(x) || is_nan(y) ? kQuietNan : chosen);
  });
}

void maximum_elements(const float* a, const float* b, float* out, std::int64_t count) {
  choose_elements([](auto x, auto y) { return x > y ? x : y; }, a, b, out, count);
}
void minimum_elements(const float* a, const float* b, float* out, std::int64_t count) {
  choose_elements([](auto x, auto y) { return x < y ? x : y; }, a, b, out, count);
}

template <class Holds>
void compare_elements(Holds holds, const float* a, const float* b, float* out, std::int64_t count) {
  std::transform(a, a + count, b, out,
                 [holds](float x, float y) { return holds(x, y) ? 1.0F : 0.0F; });
}

// a * b + c rounded to f32 once.  The product of two f32 is exact in double precision.  The sum is
// not, so it is rounded to odd: its last bit is 1 if anything was cut off, and then rounding it to
// f32, which has less than half as many bits, gives what rounding the exact sum does (Boldo and
// Melquiond, 2008).
float compute_fma(double a, double b, double c) {
  const double product = a * b;
  const double sum = product + c;
  const double c_in_sum = sum - product;
  const double cut_off = (product - (sum - c_in_sum)) + (c - c_in_sum);  // exact: Knuth's two-sum
  const auto bits = std::bit_cast<std::int64_t>(sum);
  const bool inexact = cut_off > 0 || cut_off < 0;  // false if the sum is not finite
  const std::int64_t away_from_zero = (cut_off > 0) == (sum > 0) ? 1 : -1;
  const std::int64_t step = inexact && (bits & 1) == 0 ? away_from_zero : 0;
  return static_cast<float>(std::bit_cast<double>(bits + step));
}

void fma_elements(const Blocks& in, float* __restrict out, std::int64_t count) {
  const auto [a, b, c] = in;
  for (std::int64_t i = 0; i < count; ++i) out[i] = compute_fma(a[i], b[i], c[i]);
}

void clamp_elements(const Blocks& in, float* out, std::int64_t count) {
  maximum_elements(in[0], in[1], out, count);
  minimum_elements(out, in[2], out, count);
}

void select_elements(const Blocks& in, float* __restrict out, std::int64_t count) {
  const auto [mask, a, b] = in;
  for (std::int64_t i = 0; i < count; ++i) out[i] = mask[i] != 0 ? a[i] : b[i];
}

void apply_to_one(MathOp op, const float* in, float* out, std::int64_t count) {
  switch (op) {
    case MathOp::negate:
      std::transform(in, in + count, out, [](float x) { return -x; });
      return;
    case MathOp::absolute:
      std::transform(in, in + count, out, [](float x) { return std::abs(x); });
      return;
#define KERNBENCH_MATH_FUNCTION(name, ...) \
  case MathOp::name:                       \
    return name##_elements(in, out, count);
#include "sim_engine/values/math_ops.def"
    default:  // convert: what is stored is rounded
      std::copy_n(in, count, out);
  }
}

// Returns what floor division leaves.  fmod is exact, and the sum is rounded once, as in
// CPython.
float floor_remainder(float a, float b) {
  const float left = std::fmod(a, b);
  return left != 0 && (left < 0) != (b < 0) ? left + b : left;
}

// CPython's and torch's: the difference is a multiple of b, up to the rounding of both steps, which
// the comparison mends.
float floor_quotient(float a, float b) {
  if (b == 0) return a / b;
  const float left = std::fmod(a, b);
  float quotient = (a - left) / b;
  if (left != 0 && (left < 0) != (b < 0)) quotient -= 1;
  if (quotient == 0) return std::copysign(0.0F, a / b);
  const float whole = std::floor(quotient);
  return quotient - whole > 0.5F ? whole + 1 : whole;
}

void compare(MathOp op, const float* a, const float* b, float* out, std::int64_t count) {
  switch (op) {
    case MathOp::less:
      return compare_elements(std::less<>(), a, b, out, count);
    case MathOp::less_equal:
      return compare_elements(std::less_equal<>(), a, b, out, count);
    case MathOp::greater:
      return compare_elements(std::greater<>(), a, b, out, count);
    case MathOp::greater_equal:
      return compare_elements(std::greater_equal<>(), a, b, out, count);
    case MathOp::equal:
      return compare_elements(std::equal_to<>(), a, b, out, count);
    default:
      return compare_elements(std::not_equal_to<>(), a, b, out, count);
  }
}

void apply_to_two(MathOp op, const float* a, const float* b, float* out, std::int64_t count) {
  switch (op) {
    case MathOp::add:
      std::transform(a, a + count, b, out, std::plus<>());
      return;
    case MathOp::subtract:
      std::transform(a, a + count, b, out, std::minus<>());
      return;
    case MathOp::multiply:
      std::transform(a, a + count, b, out, std::multiplies<>());
      return;
    case MathOp::divide:
      std::transform(a, a + count, b, out, std::divides<>());
      return;
    case MathOp::floor_divide:
      std::transform(a, a + count, b, out, floor_quotient);
      return;
    case MathOp::remainder:
      std::transform(a, a + count, b, out, floor_remainder);
      return;
    case MathOp::maximum:
      return maximum_elements(a, b, out, count);
    case MathOp::minimum:
      return minimum_elements(a, b, out, count);
    default:
      return compare(op, a, b, out, count);
  }
}

void apply_to_three(MathOp op, const Blocks& in, float* out, std::int64_t count) {
  switch (op) {
    case MathOp::fma:
      return fma_elements(in, out, count);
    case MathOp::clamp:
      return clamp_elements(in, out, count);
    default:
      return select_elements(in, out, count);
  }
}

}  // namespace

void apply(MathOp op, const Blocks& in, float* out, std::int64_t count) {
  switch (operand_count(op)) {
    case 1:
      return apply_to_one(op, in[0], out, count);
    case 2:
      return apply_to_two(op, in[0], in[1], out, count);
    default:
      return apply_to_three(op, in, out, count);
  }
}

namespace {

using Whole = std::int64_t;

// Arithmetic modulo 2^64, where that of signed numbers is undefined.
template <class Operation>
Whole wrapped(Operation operation, Whole a, Whole b) {
  return static_cast<Whole>(
      operation(static_cast<std::uint64_t>(a), static_cast<std::uint64_t>(b)));
}

Whole whole_quotient(Whole a, Whole b) {
  if (b == 0) return -1;
  if (b == -1) return wrapped(std::minus<>(), 0, a);
  return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}

Whole whole_result(MathOp op, Whole a, Whole b, Whole c) {
  switch (op) {
    case MathOp::floor_divide:
      return whole_quotient(a, b);
    case MathOp::remainder:
      return wrapped(std::minus<>(), a,
                     b == 0 ? 0 : wrapped(std::multiplies<>(), whole_quotient(a, b), b));
    case MathOp::add:
      return wrapped(std::plus<>(), a, b);
    case MathOp::subtract:
      return wrapped(std::minus<>(), a, b);
    case MathOp::multiply:
      return wrapped(std::multiplies<>(), a, b);
    case MathOp::maximum:
      return std::max(a, b);
    case MathOp::minimum:
      return std::min(a, b);
    case MathOp::less:
      return a < b ? 1 : 0;
    case MathOp::less_equal:
      return a <= b ? 1 : 0;
    case MathOp::greater:
      return a > b ? 1 : 0;
    case MathOp::greater_equal:
      return a >= b ? 1 : 0;
    case MathOp::equal:
      return a == b ? 1 : 0;
    case MathOp::not_equal:
      return a != b ? 1 : 0;
    case MathOp::bit_and:
      return a & b;
    case MathOp::bit_or:
      return a | b;
    case MathOp::bit_xor:
      return a ^ b;
    case MathOp::negate:
      return wrapped(std::minus<>(), 0, a);
    case MathOp::absolute:
      return a < 0 ? wrapped(std::minus<>(), 0, a) : a;
    case MathOp::fma:
      return wrapped(std::plus<>(), wrapped(std::multiplies<>(), a, b), c);
    case MathOp::clamp:
      return std::min(std::max(a, b), c);
    case MathOp::select:
      return a != 0 ? b : c;
    default:  // convert: what is stored is converted
      return a;
  }
}

}  // namespace

void apply(MathOp op, const BlocksOf<Whole>& in, Whole* out, std::int64_t count) {
  const std::size_t operands = operand_count(op);
  for (std::int64_t i = 0; i < count; ++i) {
    out[i] = whole_result(op, in[0][i], operands > 1 ? in[1][i] : 0, operands > 2 ? in[2][i] : 0);
  }
}

}  // namespace kernbench::sim
