// Counts the cycles that PE_MATH takes for an operation.
//
// Elements:             ceil(elements / lanes) * cycles; of operands and results of at most 16 bits
//                       pe.math.f16_per_lane times as many at a time
// sum, maximum, minimum (ceil(elements / lanes) + ceil(log2(min(length, lanes)))) * cycles
//   along an axis:      every lane reduces its share of the elements, and a tree joins the lanes'
//                       partial results; the trees of several results follow each other without a
//                       gap.  Sums are f32, whatever is summed, so that a lane takes one element at
//                       a time; so it does in softmax
// softmax:              the maximum, a difference, exp, the sum and a quotient, one after the other
// transpose, ramp:      as moving the elements
//
// An operation reads its operands from TCM and writes its result there once.  softmax reads three
// times and writes twice: the maximum reads; exp of the difference reads and writes, while the
// lanes add it up; the quotient does, too (Milakov and Gimelshein, arXiv:1805.02867, count the same
// reads, and one write as they compute exp twice).
//
// `cycles` is the topology's figure for one element on one lane (MathKind).  An operation without
// elements takes no cycles.  A broadcast is a matter of addresses: an operation counts the elements
// of its result, whatever its operands repeat.

#pragma once

#include <cstdint>

#include "sim_engine/topology/topology.h"
#include "sim_engine/values/compute_ops.h"

namespace kernbench::sim {

// The passes of an operation over its operands and over its result.
struct MathPasses {
  int reads = 1;
  int writes = 1;
};
MathPasses count_passes(AxisOp op);

// `widest`: the bytes of an element of the widest operand or result.
std::int64_t math_cycles(const Topology::Pe& pe, MathOp op, std::int64_t element_count,
                         Bytes widest = 4);
std::int64_t math_cycles(const Topology::Pe& pe, AxisOp op, const AxisForm& form, Bytes widest = 4);

// The operations of all lanes for an operation, each of a cycle: what one lane alone would take.
template <class... Form>
std::int64_t count_lane_operations(Topology::Pe pe, const Form&... form) {
  pe.math_lanes = pe.math_f16_per_lane = 1;
  return math_cycles(pe, form...);
}

}  // namespace kernbench::sim
