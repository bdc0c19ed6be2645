// cat, narrow and split: copies of blocks along a dimension.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "runtime/autograd/autograd.h"
#include "runtime/functional/device_kernel.h"
#include "runtime/functional/shape_operators.h"

namespace kernbench {

namespace {

using ops::Level;
using ops::LocalPart;

// A PE's part around a dimension: [rows][elements of the dimension and what is inside].
struct Rows {
  tl::Pointer data;
  std::int64_t count = 1;
  std::int64_t width = 1;
  std::int64_t inner = 1;  // elements for each index of the dimension
};

Rows rows_of(const Tensor& tensor, std::size_t dimension, const tl::Context& tl) {
  const LocalPart part = ops::local_part(tensor, tl);
  Rows rows{part.data};
  for (std::size_t i = 0; i < part.shape.rank(); ++i) {
    (i < dimension ? rows.count : rows.width) *= part.shape[i];
    if (i > dimension) rows.inner *= part.shape[i];
  }
  return rows;
}

// Calls visit(row, height, column, width) for blocks of `columns` columns of all rows.
template <class Visit>
void for_each_part(const tl::Context& tl, std::int64_t rows, std::int64_t columns, Visit visit) {
  const std::int64_t most = ops::block_elements(tl);
  ops::for_each_block(columns, most, [&](std::int64_t column, std::int64_t width) {
    ops::for_each_block(
        rows, std::max<std::int64_t>(most / width, 1),
        [&](std::int64_t row, std::int64_t height) { visit(row, height, column, width); });
  });
}

// Columns [from, from + columns) of `source` to those of `target` from `to` on.
void copy_columns(tl::Context& tl, const Rows& source, std::int64_t from, const Rows& target,
                  std::int64_t to, std::int64_t columns) {
  for_each_part(
      tl, target.count, columns,
      [&](std::int64_t row, std::int64_t height, std::int64_t column, std::int64_t width) {
        const tl::Tensor block = tl.load(source.data + row * source.width + from + column,
                                         {height, width}, source.data.dtype(), source.width);
        tl.store(target.data + row * target.width + to + column, block, target.width);
      });
}

void fill_columns(tl::Context& tl, const Rows& target, std::int64_t to, std::int64_t columns) {
  for_each_part(
      tl, target.count, columns,
      [&](std::int64_t row, std::int64_t height, std::int64_t column, std::int64_t width) {
        tl.store(target.data + row * target.width + to + column,
                 tl.zeros({height, width}, target.data.dtype()), target.width);
      });
}

Shape with_size(const Shape& shape, std::size_t dimension, std::int64_t size) {
  std::vector<std::int64_t> sizes(shape.begin(), shape.end());
  sizes[dimension] = size;
  return Shape(sizes);
}

void check_is_uncut(std::string_view name, const Tensor& x, std::size_t dimension) {
  const ops::Placement placement = ops::placement_of(x);
  if (placement.cube != ops::cut(dimension) && placement.pe != ops::cut(dimension)) return;
  ops::refuse_placement(name, x,
                        fmt::format("along dimension {}, which is cut, PEs would have to exchange "
                                    "elements",
                                    dimension));
}

Tensor narrowed(const Tensor& x, std::size_t dimension, std::int64_t start, std::int64_t length) {
  Tensor result = ops::make_like(x, "narrow", with_size(x.shape(), dimension, length), x.dtype(),
                                 ops::placement_of(x));
  ops::launch("narrow", {result}, {x}, [&](tl::Context& tl) {
    const Rows target = rows_of(result, dimension, tl);
    copy_columns(tl, rows_of(x, dimension, tl), start * target.inner, target, 0, target.width);
  });
  return result;
}

// The reverse: zeros around it.
Tensor padded(const Tensor& x, std::size_t dimension, std::int64_t start, const Shape& shape) {
  Tensor result = ops::make_like(x, "narrow_backward", shape, x.dtype(), ops::placement_of(x));
  ops::launch("narrow_backward", {result}, {x}, [&](tl::Context& tl) {
    const Rows source = rows_of(x, dimension, tl);
    const Rows target = rows_of(result, dimension, tl);
    const std::int64_t begin = start * target.inner;
    const std::int64_t end = begin + source.width;
    fill_columns(tl, target, 0, begin);
    copy_columns(tl, source, 0, target, begin, source.width);
    fill_columns(tl, target, end, target.width - end);
  });
  return result;
}

// Sizes along the dimension.
std::vector<std::int64_t> check_cat(const std::vector<Tensor>& tensors, std::size_t dimension) {
  const Tensor& first = tensors.front();
  check_is_uncut("cat", first, dimension);
  std::vector<std::int64_t> sizes;
  for (const Tensor& tensor : tensors) {
    const bool fits =
        tensor.shape().rank() == first.shape().rank() &&
        with_size(tensor.shape(), dimension, first.shape()[dimension]) == first.shape();
    if (!fits) {
      ops::refuse_shapes("cat", fmt::format("Sizes of tensors must match except in dimension {}. "
                                            "Expected {} but got {} for tensor number {} in the "
                                            "list.",
                                            dimension, to_string(first.shape()),
                                            to_string(tensor.shape()), sizes.size()));
    }
    if (ops::placement_of(tensor) != ops::placement_of(first)) {
      ops::refuse_placements("cat", first, tensor, "all must lie the same way");
    }
    sizes.push_back(tensor.shape()[dimension]);
  }
  return sizes;
}

Tensor concatenated(const std::vector<Tensor>& tensors, std::size_t dimension,
                    std::int64_t length) {
  const Tensor& first = tensors.front();
  Tensor result = ops::make_like(first, "cat", with_size(first.shape(), dimension, length),
                                 first.dtype(), ops::placement_of(first));
  ops::launch("cat", {result}, tensors, [&](tl::Context& tl) {
    const Rows target = rows_of(result, dimension, tl);
    std::int64_t begin = 0;
    for (const Tensor& tensor : tensors) {
      const Rows source = rows_of(tensor, dimension, tl);
      copy_columns(tl, source, 0, target, begin, source.width);
      begin += source.width;
    }
  });
  return result;
}

}  // namespace

Tensor cat(const std::vector<Tensor>& tensors, int dim) {
  if (tensors.empty()) ops::refuse_shapes("cat", "expected a non-empty list of Tensors");
  ops::check_operands("cat", tensors);
  const std::size_t dimension = ops::dimension_of("cat", tensors.front(), dim);
  const std::vector<std::int64_t> sizes = check_cat(tensors, dimension);
  std::int64_t length = 0;
  for (const std::int64_t size : sizes) length += size;
  return autograd::record("cat", concatenated(tensors, dimension, length), tensors,
                          [sizes, dimension](const Tensor& dy) {
                            std::vector<Tensor> gradients;
                            std::int64_t start = 0;
                            for (const std::int64_t size : sizes) {
                              gradients.push_back(narrowed(dy, dimension, start, size));
                              start += size;
                            }
                            return gradients;
                          });
}

Tensor narrow(const Tensor& x, int dim, std::int64_t start, std::int64_t length) {
  ops::check_operands("narrow", {x});
  const std::size_t dimension = ops::dimension_of("narrow", x, dim);
  const std::int64_t size = x.shape()[dimension];
  if (start < 0 || length < 0 || start > size || length > size - start) {
    ops::refuse_shapes("narrow", fmt::format("start ({}) + length ({}) exceeds dimension size ({})",
                                             start, length, size));
  }
  check_is_uncut("narrow", x, dimension);
  return autograd::record("narrow", narrowed(x, dimension, start, length), {x},
                          [dimension, start, shape = x.shape()](const Tensor& dy) {
                            return std::vector{padded(dy, dimension, start, shape)};
                          });
}

std::vector<Tensor> split(const Tensor& x, const std::vector<std::int64_t>& sizes, int dim) {
  ops::check_operands("split", {x});
  const std::int64_t size = x.shape()[ops::dimension_of("split", x, dim)];
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
  ops::check_operands("split", {x});
  const std::int64_t size = x.shape()[ops::dimension_of("split", x, dim)];
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

}  // namespace kernbench
