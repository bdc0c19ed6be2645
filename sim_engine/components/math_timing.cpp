#include "sim_engine/components/math_timing.h"

#include <algorithm>
#include <bit>

namespace kernbench::sim {

namespace {

MathKind to_math_kind(MathOp op) {
  switch (op) {
    case MathOp::add:
    case MathOp::subtract:
    case MathOp::bit_and:
    case MathOp::bit_or:
    case MathOp::bit_xor:
    case MathOp::negate:
    case MathOp::absolute:
      return MathKind::add;
    case MathOp::multiply:
      return MathKind::mul;
    case MathOp::divide:
    case MathOp::floor_divide:
    case MathOp::remainder:
      return MathKind::div;
    case MathOp::exp:
    case MathOp::exp2:
    case MathOp::sin:
    case MathOp::cos:
    case MathOp::erf:
      return MathKind::exp;
    case MathOp::log:
    case MathOp::log2:
      return MathKind::log;
    case MathOp::sqrt:
      return MathKind::sqrt;
    case MathOp::rsqrt:
      return MathKind::rsqrt;
    case MathOp::sigmoid:
      return MathKind::sigmoid;
    case MathOp::fma:
      return MathKind::fma;
    case MathOp::convert:
    case MathOp::floor:
    case MathOp::select:
      return MathKind::move;
    case MathOp::maximum:
    case MathOp::minimum:
    case MathOp::less:
    case MathOp::less_equal:
    case MathOp::greater:
    case MathOp::greater_equal:
    case MathOp::equal:
    case MathOp::not_equal:
    case MathOp::clamp:
      break;
  }
  return MathKind::compare;
}

// The number of passes in which the lanes process all elements.
std::int64_t passes(const Topology::Pe& pe, std::int64_t element_count) {
  return (element_count + pe.math_lanes - 1) / pe.math_lanes;
}

std::int64_t element_cycles(const Topology::Pe& pe, MathKind kind, std::int64_t element_count) {
  return passes(pe, element_count) * pe.math_cycles[kind];
}

std::int64_t reduction_cycles(const Topology::Pe& pe, MathKind kind, const AxisForm& form) {
  const std::int64_t count = form.count_with_axis();
  if (count == 0) return 0;
  const auto joined =
      static_cast<std::uint64_t>(std::min<std::int64_t>(form.length, pe.math_lanes));
  const auto tree_depth = static_cast<std::int64_t>(std::bit_width(joined - 1));
  return (passes(pe, count) + tree_depth) * pe.math_cycles[kind];
}

std::int64_t softmax_cycles(const Topology::Pe& pe, const AxisForm& form) {
  std::int64_t cycles = reduction_cycles(pe, MathKind::compare, form);
  cycles += reduction_cycles(pe, MathKind::add, form);
  for (const MathKind kind : {MathKind::add, MathKind::exp, MathKind::div}) {
    cycles += element_cycles(pe, kind, form.count_with_axis());
  }
  return cycles;
}

}  // namespace

MathPasses count_passes(AxisOp op) {
  return op == AxisOp::softmax ? MathPasses{3, 2} : MathPasses{};
}

std::int64_t math_cycles(const Topology::Pe& pe, MathOp op, std::int64_t element_count) {
  const std::int64_t cycles = element_cycles(pe, to_math_kind(op), element_count);
  // erf is an exponential and a polynomial of degree 12.
  if (op == MathOp::erf) return cycles + 12 * element_cycles(pe, MathKind::fma, element_count);
  return cycles;
}

std::int64_t math_cycles(const Topology::Pe& pe, AxisOp op, const AxisForm& form) {
  switch (op) {
    case AxisOp::sum:
      return reduction_cycles(pe, MathKind::add, form);
    case AxisOp::maximum:
    case AxisOp::minimum:
      return reduction_cycles(pe, MathKind::compare, form);
    case AxisOp::softmax:
      return softmax_cycles(pe, form);
    case AxisOp::broadcast:
      return 0;
    case AxisOp::transpose:
    case AxisOp::ramp:
      break;
  }
  return element_cycles(pe, MathKind::move, form.count_with_axis());
}

}  // namespace kernbench::sim
