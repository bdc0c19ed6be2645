#include "sim_engine/components/math_timing.h"

#include <algorithm>
#include <array>
#include <bit>

#include "sim_engine/base/ceil_divide.h"

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

// Elements that PE_MATH takes at a time.
std::int64_t width(const Topology::Pe& pe, Bytes widest) {
  return std::int64_t{pe.math_lanes} * (widest <= 2 ? pe.math_f16_per_lane : 1);
}

std::int64_t element_cycles(const Topology::Pe& pe, MathKind kind, std::int64_t element_count,
                            Bytes widest = 4) {
  return ceil_divide(element_count, width(pe, widest)) * pe.math_cycles[kind];
}

std::int64_t reduction_cycles(const Topology::Pe& pe, MathKind kind, const AxisForm& form,
                              Bytes widest = 4) {
  const std::int64_t count = form.count_with_axis();
  if (count == 0) return 0;
  const std::int64_t at_once = width(pe, widest);
  const auto joined = static_cast<std::uint64_t>(std::min(form.length, at_once));
  const auto tree_depth = static_cast<std::int64_t>(std::bit_width(joined - 1));
  return (ceil_divide(count, at_once) + tree_depth) * pe.math_cycles[kind];
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

std::int64_t math_cycles(const Topology::Pe& pe, MathOp op, std::int64_t element_count,
                         Bytes widest) {
  const Passes& made = kPasses[static_cast<std::size_t>(op)];
  return element_cycles(pe, made.kind, element_count, widest) +
         made.fmas * element_cycles(pe, MathKind::fma, element_count, widest);
}

std::int64_t math_cycles(const Topology::Pe& pe, AxisOp op, const AxisForm& form, Bytes widest) {
  switch (op) {
    case AxisOp::sum:
      return reduction_cycles(pe, MathKind::add, form);
    case AxisOp::maximum:
    case AxisOp::minimum:
      return reduction_cycles(pe, MathKind::compare, form, widest);
    case AxisOp::softmax:
      return softmax_cycles(pe, form);
    case AxisOp::broadcast:
      return 0;
    case AxisOp::transpose:
    case AxisOp::ramp:
      break;
  }
  return element_cycles(pe, MathKind::move, form.count_with_axis(), widest);
}

}  // namespace kernbench::sim
