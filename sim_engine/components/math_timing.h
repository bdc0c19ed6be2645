// How many cycles PE_MATH takes for an operation.
//
// Elements:             ceil(elements / lanes) * cycles
// sum, maximum, minimum (ceil(elements / lanes) + ceil(log2(min(length, lanes)))) * cycles
//   along an axis:      every lane folds the elements that it gets, and a tree joins what the lanes
//                       hold of one result; of several results the trees follow each other without
//                       a gap
// softmax:              the maximum, a difference, exp, the sum and a quotient, one after the other
// transpose, ramp:      as moving the elements
//
// `cycles` are those of the topology for an element and a lane (MathKind).  No elements: no cycles.
// A broadcast is a matter of addresses: an operation counts the elements of its result, whatever
// its operands repeat.

#pragma once

#include <cstdint>

#include "sim_engine/data/math_op.h"
#include "sim_engine/topology/topology.h"

namespace kernbench::sim {

std::int64_t math_cycles(const Topology::Pe& pe, MathOp op, std::int64_t element_count);
std::int64_t math_cycles(const Topology::Pe& pe, AxisOp op, const AxisForm& form);

}  // namespace kernbench::sim
