// Copies between strided views and tensors whose elements lie row by row.  They record nothing.

#pragma once

#include <string_view>

#include "runtime/tensor/tensor.h"

namespace kernbench::ops {

// Returns the elements of a view row by row, in memory of their own; x itself if it is not strided.
Tensor dense(const Tensor& x, std::string_view name = "contiguous");

// Writes x into a strided view of its shape, type and placement.  Throws DeviceError KB-F001 if the
// view repeats elements, in torch's words.
// REQUIRES: x is not strided, and shares no elements with the view
void write_view(const Tensor& view, const Tensor& x);

}  // namespace kernbench::ops
