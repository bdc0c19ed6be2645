// Normalization of rows: over the last dimension, which must be whole on each PE (KB-F003).  It is
// computed in f32, with one rounding to the type of x.
//
// A kernel holds several whole rows in f32 in scratch (KB-M010): with 2 MiB and nothing else in
// it, rows may have up to 104,000 elements, and up to 65,000 if gradients are computed.

#pragma once

#include <optional>

#include "runtime/tensor/tensor.h"

namespace kernbench::nn::functional {

// (x - mean) / sqrt(variance + eps) weight + bias, with the mean and the variance of each row (the
// biased variance, divided by n).  `normalized_shape` is [n], the last dimension of x; weight and
// bias are [n] or undefined, and every holder has them whole.  Where x is split, their gradients
// are partial.
// Throws DeviceError KB-F001, KB-F002, KB-F003.
Tensor layer_norm(const Tensor& x, const Shape& normalized_shape, const Tensor& weight = {},
                  const Tensor& bias = {}, double eps = 1e-5);

// x / sqrt(mean(x^2) + eps) weight; `eps` defaults to the epsilon of f32.
Tensor rms_norm(const Tensor& x, const Shape& normalized_shape, const Tensor& weight = {},
                std::optional<double> eps = {});

struct BatchNormOptions {
  Tensor weight = {};
  Tensor bias = {};
  bool training = false;
  double momentum = 0.1;
  double eps = 1e-5;
};

// (x - mean) / sqrt(variance + eps) weight + bias with one mean and variance for each channel of x
// [n, c, ...]: the batch's in training, when the running ones move towards them by `momentum`, with
// the unbiased variance; else the running ones.  Those and weight and bias are [c], or undefined.
// Several kernels, in f32, with one rounding.  In training the batch must not be cut (KB-F003), as
// nothing adds up the holders' means.
Tensor batch_norm(const Tensor& x, const Tensor& running_mean, const Tensor& running_var,
                  const BatchNormOptions& options = {});

// layer_norm() of each of num_groups groups of channels of each x [n, c, ...], then weight [c] and
// bias [c].
Tensor group_norm(const Tensor& x, std::int64_t num_groups, const Tensor& weight = {},
                  const Tensor& bias = {}, double eps = 1e-5);

struct NormalizeOptions {
  double p = 2;
  int dim = 1;
  double eps = 1e-12;
};
// x / max(its p-norm along the dimension, eps) (torch.nn.functional.normalize).
Tensor normalize(const Tensor& x, const NormalizeOptions& options = {});

}  // namespace kernbench::nn::functional
