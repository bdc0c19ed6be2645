// cat, stack, split, chunk and unbind.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "runtime/autograd/autograd.h"
#include "runtime/functional/shape_operators.h"
#include "runtime/ops/device_kernel.h"
#include "runtime/ops/pieces.h"
#include "runtime/ops/placement.h"
#include "runtime/ops/result_type.h"
#include "runtime/tensor/tensor_storage.h"

namespace kernbench {

namespace {

// Sizes along the dimension.
std::vector<std::int64_t> check_cat(const std::vector<Tensor>& tensors, std::size_t dimension) {
  const Tensor& first = tensors.front();
  ops::check_is_uncut("cat", first, dimension);
  std::vector<std::int64_t> sizes;
  for (const Tensor& tensor : tensors) {
    if (tensor.dim() != first.dim()) {
      ops::refuse_shapes("cat", fmt::format("Tensors must have same number of dimensions: got {} "
                                            "and {}: {} and {}",
                                            first.dim(), tensor.dim(), to_string(first.shape()),
                                            to_string(tensor.shape())));
    }
    for (std::size_t d = 0; d < first.shape().rank(); ++d) {
      if (d == dimension || tensor.shape()[d] == first.shape()[d]) continue;
      ops::refuse_shapes("cat",
                         fmt::format("Sizes of tensors must match except in dimension {}. "
                                     "Expected size {} but got size {} for tensor number {} "
                                     "in the list: {} and {}",
                                     dimension, first.shape()[d], tensor.shape()[d], sizes.size(),
                                     to_string(first.shape()), to_string(tensor.shape())));
    }
    if (ops::placement_of(tensor) != ops::placement_of(first)) {
      ops::refuse_placements("cat", first, tensor, "all must lie the same way");
    }
    sizes.push_back(tensor.shape()[dimension]);
  }
  return sizes;
}

Tensor concatenated(const std::vector<Tensor>& tensors, std::size_t dimension,
                    const std::vector<std::int64_t>& sizes) {
  std::vector<ops::Piece> pieces;
  std::int64_t length = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    pieces.push_back({tensors[i], length});
    length += sizes[i];
  }
  const Shape shape = ops::with_size(tensors.front().shape(), dimension, length);
  return ops::assembled("cat", shape, dimension, pieces);
}

}  // namespace

Tensor cat(const std::vector<Tensor>& operands, int dim) {
  if (operands.empty()) {
    ops::refuse_shapes("cat", "torch.cat(): expected a non-empty list of Tensors");
  }
  for (const Tensor& operand : operands) ops::check_operands("cat", {operand}, ops::Types::any);
  const DType common = ops::result_type("cat", operands);
  std::vector<Tensor> tensors;
  for (const Tensor& operand : operands) tensors.push_back(contiguous(operand.to(common)));
  ops::check_operands("cat", tensors, ops::Types::any);
  const std::size_t dimension = ops::wrap_dimension("cat", tensors.front(), dim);
  const std::vector<std::int64_t> sizes = check_cat(tensors, dimension);
  std::vector<bool> wanted;
  for (const Tensor& tensor : tensors) wanted.push_back(autograd::needs_grad(tensor));
  return autograd::record("cat", concatenated(tensors, dimension, sizes), tensors,
                          [sizes, dimension, wanted](const Tensor& dy) {
                            std::vector<Tensor> gradients(sizes.size());
                            std::int64_t start = 0;
                            for (std::size_t i = 0; i < sizes.size(); ++i) {
                              if (wanted[i]) {
                                gradients[i] = ops::narrowed(dy, dimension, start, sizes[i]);
                              }
                              start += sizes[i];
                            }
                            return gradients;
                          });
}

std::vector<Tensor> split(const Tensor& x, const std::vector<std::int64_t>& sizes, int dim) {
  ops::check_operands("split", {x}, ops::Types::any);
  const std::int64_t size = x.shape()[ops::wrap_dimension("split", x, dim)];
  std::int64_t total = 0;
  for (const std::int64_t part : sizes) total += part;
  if (total != size) {
    ops::refuse_shapes(
        "split", fmt::format("split_with_sizes expects split_sizes to sum exactly to {} "
                             "(input tensor's size at dimension {}), but got split_sizes=[{}]",
                             size, dim, fmt::join(sizes, ", ")));
  }
  std::vector<Tensor> parts;
  std::int64_t start = 0;
  for (const std::int64_t part : sizes) {
    parts.push_back(narrow(x, dim, start, part));
    start += part;
  }
  return parts;
}

std::vector<Tensor> split(const Tensor& x, std::int64_t split_size, int dim) {
  ops::check_operands("split", {x}, ops::Types::any);
  const std::int64_t size = x.shape()[ops::wrap_dimension("split", x, dim)];
  if (split_size <= 0) {
    ops::refuse_shapes(
        "split", fmt::format("split_size must be positive, but got split_size={}", split_size));
  }
  std::vector<std::int64_t> sizes;
  for (std::int64_t start = 0; start < size; start += split_size) {
    sizes.push_back(std::min(split_size, size - start));
  }
  return split(x, sizes, dim);
}

Tensor stack(const std::vector<Tensor>& tensors, int dim) {
  if (tensors.empty()) ops::refuse_shapes("stack", "stack expects a non-empty TensorList");
  std::vector<Tensor> unsqueezed;
  for (const Tensor& tensor : tensors) {
    ops::check_operands("stack", {tensor}, ops::Types::any);
    if (tensor.shape() != tensors.front().shape()) {
      ops::refuse_shapes("stack",
                         fmt::format("stack expects each tensor to be equal size, but got {} at "
                                     "entry 0 and {} at entry {}",
                                     to_string(tensors.front().shape()), to_string(tensor.shape()),
                                     unsqueezed.size()));
    }
    unsqueezed.push_back(unsqueeze(tensor, dim));
  }
  return cat(unsqueezed, dim);
}

namespace {

// A tensor beside x with x's sizes but one, all elements of which are a number.
Tensor filled_beside(const Tensor& x, std::size_t dimension, std::int64_t size,
                     const Scalar& value) {
  Tensor filled = ops::make_like(x, "pad", ops::with_size(x.shape(), dimension, size), x.dtype(),
                                 ops::gradient_placement(ops::placement_of(x)));
  runtime::fill(*filled.storage(), value);
  return filled;
}

}  // namespace

Tensor nn::functional::pad(const Tensor& x, const std::vector<std::int64_t>& pad,
                           const Scalar& value) {
  ops::check_operands("pad", {x}, ops::Types::any);
  ops::check_is_whole("pad", x);
  const std::size_t rank = x.shape().rank();
  if (pad.size() % 2 != 0 || pad.size() / 2 > rank) {
    ops::refuse_shapes("pad", fmt::format("Padding length must be divisible by two and at most "
                                          "twice the number of dimensions of the input. Pad has "
                                          "{} values, and the input is {}",
                                          pad.size(), to_string(x.shape())));
  }
  Tensor y = x;
  for (std::size_t i = 0; i < pad.size(); i += 2) {
    const std::size_t dimension = rank - 1 - i / 2;
    const auto dim = static_cast<int>(dimension);
    const auto taken = [](std::int64_t by) { return by < 0 ? -by : 0; };
    const std::int64_t left = taken(pad[i]);
    if (left + taken(pad[i + 1]) > 0) {
      y = narrow(y, dim, left, y.size(dim) - left - taken(pad[i + 1]));
    }
    std::vector<Tensor> parts;
    if (pad[i] > 0) parts.push_back(filled_beside(y, dimension, pad[i], value));
    parts.push_back(y);
    if (pad[i + 1] > 0) parts.push_back(filled_beside(y, dimension, pad[i + 1], value));
    if (parts.size() > 1) y = cat(parts, dim);
  }
  return y;
}

std::vector<Tensor> chunk(const Tensor& x, std::int64_t chunks, int dim) {
  ops::check_operands("chunk", {x}, ops::Types::any);
  if (chunks <= 0) {
    ops::refuse_shapes("chunk",
                       fmt::format("chunk expects `chunks` to be greater than 0, got: {}", chunks));
  }
  const std::int64_t size = x.shape()[ops::wrap_dimension("chunk", x, dim)];
  return split(x, std::max<std::int64_t>((size + chunks - 1) / chunks, 1), dim);
}

std::vector<Tensor> unbind(const Tensor& x, int dim) {
  ops::check_operands("unbind", {x}, ops::Types::any);
  const std::int64_t size = x.shape()[ops::wrap_dimension("unbind", x, dim)];
  std::vector<Tensor> parts;
  for (std::int64_t i = 0; i < size; ++i) parts.push_back(select(x, dim, i));
  return parts;
}

}  // namespace kernbench
