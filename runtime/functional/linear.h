// Products with a weight: linear, convolutions; and pooling, which has the windows of these.

#pragma once

#include <cstdint>
#include <optional>

#include "runtime/tensor/tensor.h"

namespace kernbench::nn::functional {

// x weight^T + bias for x [..., in], weight [out, in] and bias [out] or none: [..., out], as in
// torch.  It is an addmm(), with one rounding.  The layers of tp have weights [in, out], which
// they multiply without a transposition.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {});

// A number for the rows and one for the columns of an image: `2`, or `{2, 1}`.
struct Pair {
  std::int64_t height = 0;
  std::int64_t width = 0;

  Pair(std::int64_t both) : height(both), width(both) {}
  Pair(std::int64_t rows, std::int64_t columns) : height(rows), width(columns) {}
};

struct ConvOptions {
  Pair stride = 1;
  Pair padding = 0;   // zeros on each side
  Pair dilation = 1;  // between neighbours of a window
  std::int64_t groups = 1;
};

// Convolutions of x [n, c, h, w] with weight [o, c / groups, kh, kw], and of [n, c, l] with
// [o, c / groups, k], whose options' widths count: [n, o, rows, columns] and [n, o, count].  One
// kernel makes the windows the rows of a matrix, one product multiplies all of them by the weight,
// and another one exchanges the dimensions; padding is a copy for each dimension (ADR-0279).  What
// is cut must be the batch, and only of one group.  KB-F001 in torch's words, KB-F002, KB-F003.
Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
              const ConvOptions& options = {});
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
              const ConvOptions& options = {});
// The windows of an image [n, c, h, w], [n, c kh kw, windows] (torch.nn.functional.unfold).
Tensor unfold(const Tensor& x, const Pair& kernel_size, const ConvOptions& options = {});

struct PoolOptions {
  std::optional<Pair> stride = {};  // the kernel's size
  Pair padding = 0;
};

// The largest element, or the mean, of each window of x [n, c, h, w]; of equal ones the first has
// the gradient.  Padding counts as -infinity, and in means as 0.  adaptive_avg_pool2d() has windows
// of equal size, so that output_size divides the image's (KB-F001).  Throw as conv2d().
Tensor max_pool2d(const Tensor& x, const Pair& kernel_size, const PoolOptions& options = {});
Tensor avg_pool2d(const Tensor& x, const Pair& kernel_size, const PoolOptions& options = {});
Tensor adaptive_avg_pool2d(const Tensor& x, const Pair& output_size);

}  // namespace kernbench::nn::functional
