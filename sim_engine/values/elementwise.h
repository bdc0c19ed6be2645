// Operations on blocks of f32 and of integers: the arithmetic of the evaluation.  The caller rounds
// to the type.

#pragma once

#include <array>
#include <cstdint>

#include "sim_engine/values/compute_ops.h"

namespace kernbench::sim {

// The operands of an operation; only the first operand_count(op) are used.
template <class Number>
using BlocksOf = std::array<const Number*, kMostOperands>;
using Blocks = BlocksOf<float>;

// out[i] = op(in[0][i], in[1][i], in[2][i]) for i < count.
// REQUIRES: `out` overlaps no operand, or is itself an operand of an operation with two operands
void apply(MathOp op, const Blocks& in, float* out, std::int64_t count);
// REQUIRES: is_of_integers(op)
void apply(MathOp op, const BlocksOf<std::int64_t>& in, std::int64_t* out, std::int64_t count);

}  // namespace kernbench::sim
