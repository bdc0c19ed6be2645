// Broadcasting of tensors with different shapes, as in numpy.

#pragma once

#include <array>
#include <optional>

#include "sim_engine/base/shape.h"
#include "sim_engine/values/compute_ops.h"

namespace kernbench::tl {

// Returns the shape that both broadcast to: aligned at the last dimension, a size of 1 fits any.
// nullopt if sizes differ otherwise.
std::optional<Shape> common_shape(const Shape& a, const Shape& b);

// The broadcasts, one after the other, that repeat the elements of `from` to make those of `to`.
struct Repetitions {
  std::array<sim::AxisForm, Shape::kMaxRank> forms;
  std::size_t count = 0;
};
// REQUIRES: common_shape(from, to) is `to`
Repetitions repetitions(const Shape& from, const Shape& to);

}  // namespace kernbench::tl
