// Kernels that reduce dimensions of a tensor.  They record nothing.

#pragma once

#include <cstdint>
#include <string_view>

#include "runtime/ops/device_kernel.h"

namespace kernbench::ops {

// A set of dimensions: bit i is dimension i.
using DimensionSet = std::uint32_t;

inline bool contains(DimensionSet set, std::size_t dimension) {
  return (set >> dimension & 1U) != 0;
}

// A way of reducing elements, in f32 with one rounding at the end, or of integers in i64.
struct Reduction {
  std::string_view name;
  double initial = 0;  // the value of no elements
  // True if the reduction of a sum of tensors is the sum of their reductions: then x may be
  // partial, and where a reduced dimension is cut, the result is.
  bool is_linear = false;
  // Reduces one axis of a block, which keeps size 1.
  tl::Tensor (*of_block)(tl::Context& tl, const tl::Tensor& block, int axis) = nullptr;
  tl::Tensor (*joined)(tl::Context& tl, const tl::Tensor& a, const tl::Tensor& b) = nullptr;
  // Computes the result from the value that `count` elements have; null: it is that value.
  tl::Tensor (*result)(tl::Context& tl, const tl::Tensor& value, double count) = nullptr;
  bool widens = false;  // integers become i64
};

inline tl::Tensor sum_of_block(tl::Context& tl, const tl::Tensor& block, int axis) {
  return tl.sum(block, axis, {.keep_dims = true});
}
inline tl::Tensor sum_of_both(tl::Context&, const tl::Tensor& a, const tl::Tensor& b) {
  return a + b;
}
inline constexpr Reduction kSum{"sum", 0, true, sum_of_block, sum_of_both, nullptr, true};

// Reduces these dimensions, which keep size 1 unless they are `dropped` too.  Throws DeviceError
// KB-F003 for a placement that it cannot do without communication.
// REQUIRES: `dropped` is a subset of `dimensions`; x is checked
Tensor reduced(const Tensor& x, const Reduction& reduction, DimensionSet dimensions,
               DimensionSet dropped = 0);

// Sums the gradient of an operator's result to the shape of an operand that was broadcast.
Tensor sum_to(const Shape& shape, const Tensor& gradient);

// Sums x over all dimensions but the last, in f32 with one rounding: the gradient of a vector that
// was broadcast to each row.
Tensor sum_of_rows(const Tensor& x);

}  // namespace kernbench::ops
