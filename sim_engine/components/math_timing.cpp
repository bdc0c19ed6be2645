#include "sim_engine/components/math_timing.h"

#include <algorithm>
#include <array>
#include <bit>

namespace kernbench::sim {

namespace {

// The passes of an operation over its elements.
struct Passes {
  MathKind kind;
  int fmas;
};
constexpr std::array kPasses = {
#define KERNBENCH_MATH_OP(name, operands, domain, kind, fmas) Passes{MathKind::kind, fmas},
#include "sim_engine/values/math_ops.def"
};

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
  const Passes& made = kPasses[static_cast<std::size_t>(op)];
  return element_cycles(pe, made.kind, element_count) +
         made.fmas * element_cycles(pe, MathKind::fma, element_count);
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
