// Normalization of rows: over the last dimension, which must be whole on each PE (KB-F003).  In
// f32, with one rounding to the type of x.
//
// A kernel has several whole rows' worth of f32 in scratch (KB-M010): with 2 MiB and nothing beside
// it, rows of up to 104,000 elements, and up to 65,000 if gradients are computed.

#pragma once

#include <optional>

#include "runtime/tensor/tensor.h"

namespace kernbench::nn::functional {

// (x - mean) / sqrt(variance + eps) weight + bias, with the mean and the variance (of all, not one
// less) of each row.  `normalized_shape` is [n], the last dimension of x; weight and bias are [n]
// or undefined, and every holder has them whole.  Where x is cut, their gradients are partial.
// Throws DeviceError KB-F001, KB-F002, KB-F003.
Tensor layer_norm(const Tensor& x, const Shape& normalized_shape, const Tensor& weight = {},
                  const Tensor& bias = {}, double eps = 1e-5);

// x / sqrt(mean of squares + eps) weight; `eps` is the epsilon of f32 unless it is given.
Tensor rms_norm(const Tensor& x, const Shape& normalized_shape, const Tensor& weight = {},
                std::optional<double> eps = {});

}  // namespace kernbench::nn::functional
