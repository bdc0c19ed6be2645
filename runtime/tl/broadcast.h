// How tensors of different shapes are used together, as in numpy.

#pragma once

#include <array>
#include <optional>

#include "runtime/tensor/shape.h"
#include "sim_engine/data/math_op.h"

namespace kernbench::tl {

// The shape that both fit: aligned at the last dimension, a size of 1 fits any.  None if they
// differ otherwise.
std::optional<Shape> common_shape(const Shape& a, const Shape& b);

// How the elements of `from` are repeated to make those of `to`: broadcasts, one after the other.
struct Repetitions {
  std::array<sim::AxisForm, Shape::kMaxRank> forms;
  std::size_t count = 0;
};
// REQUIRES: common_shape(from, to) is `to`
Repetitions repetitions(const Shape& from, const Shape& to);

}  // namespace kernbench::tl
