// Views that exchange, repeat or skip: permute, transpose, expand, slice; and contiguous().

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "runtime/autograd/autograd.h"
#include "runtime/autograd/view.h"
#include "runtime/functional/shape_operators.h"
#include "runtime/functional/views.h"
#include "runtime/ops/elements.h"
#include "runtime/ops/indexed.h"
#include "runtime/ops/pieces.h"
#include "runtime/ops/reduce.h"
#include "runtime/ops/strided_copy.h"
#include "runtime/tensor/strided_view.h"

namespace kernbench {

namespace {

using ops::Level;
using runtime::PartOfView;
using Order = std::vector<std::size_t>;

// Returns x's policy with each cut dimension moved to where `moved` says.
DPPolicy policy_after(std::string_view name, const Tensor& x, std::size_t rank,
                      const std::function<std::size_t(std::size_t)>& moved) {
  const auto placement =
      *ops::by_level(ops::placement_of(x), [&](Level level) -> std::optional<Level> {
        return level.is_cut() ? ops::cut(moved(level.dimension)) : level;
      });
  const auto dp = ops::to_policy(placement, rank);
  if (!dp) {
    ops::refuse_placement(name, x,
                          "the result would be cut along a dimension that is neither the first nor "
                          "the last");
  }
  return *dp;
}

template <class Values>
auto reordered(const Values& values, const Order& order) {
  std::vector<std::int64_t> result;
  for (const std::size_t d : order) result.push_back(values[d]);
  return result;
}

Tensor permuted(const Tensor& x, const Order& order) {
  const DPPolicy dp = policy_after("permute", x, order.size(), [&](std::size_t d) {
    return static_cast<std::size_t>(std::ranges::find(order, d) - order.begin());
  });
  return runtime::strided_view(
      x, Shape(reordered(x.shape(), order)), dp, [&](const ShardInfo& shard) {
        return PartOfView{reordered(shard.offset, order), Shape(reordered(shard.shape, order)),
                          reordered(runtime::strides_of(shard), order), 0};
      });
}

Order invert(const Order& order) {
  Order inverse(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) inverse[order[i]] = i;
  return inverse;
}

Tensor permute_view(const Tensor& x, const Order& order) {
  return autograd::record_view(
      "permute", permuted(x, order), x, [order](const Tensor& of) { return permuted(of, order); },
      [inverse = invert(order)](const Tensor& dy) {
        return ops::dense(permuted(dy, inverse), "permute_backward");
      });
}

}  // namespace

Tensor contiguous(const Tensor& x) {
  if (!x.defined() || x.is_host() || !runtime::is_strided(x)) return x;
  ops::check_holders("contiguous", {x});
  return autograd::record("contiguous", ops::dense(x), {x},
                          [](const Tensor& dy) { return std::vector{dy}; });
}

std::vector<Tensor> contiguous(std::vector<Tensor> tensors) {
  for (Tensor& tensor : tensors) tensor = contiguous(tensor);
  return tensors;
}

Tensor permute(const Tensor& x, const std::vector<int>& dims) {
  ops::check_operands("permute", {x}, ops::Types::any);
  if (dims.size() != x.shape().rank()) {
    ops::refuse_shapes(
        "permute",
        fmt::format(
            "permute(sparse_coo): number of dimensions in the tensor input does not match the "
            "length of the desired ordering of dimensions i.e. input.dim() "
            "= {} is not equal to len(dims) = {}",
            x.dim(), dims.size()));
  }
  Order order;
  for (const int dim : dims) {
    order.push_back(ops::wrap_dimension("permute", x, dim));
    if (std::ranges::count(order, order.back()) > 1) {
      ops::refuse_shapes("permute", "permute(): duplicate dims are not allowed.");
    }
  }
  return permute_view(x, order);
}

Tensor transpose(const Tensor& x, int dim0, int dim1) {
  ops::check_operands("transpose", {x}, ops::Types::any);
  const std::size_t first = ops::wrap_dimension("transpose", x, dim0);
  const std::size_t second = ops::wrap_dimension("transpose", x, dim1);
  if (first == second) return x;
  Order order(x.shape().rank());
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[first], order[second]);
  return permute_view(x, order);
}

namespace {

// Returns the sizes of the result; -1 stands for the size that x has.
Shape expanded_shape(const Tensor& x, const std::vector<std::int64_t>& sizes) {
  const Shape& shape = x.shape();
  if (sizes.size() < shape.rank()) {
    ops::refuse_shapes("expand", fmt::format("the number of sizes provided ({}) must be greater or "
                                             "equal to the number of dimensions in the tensor ({})",
                                             sizes.size(), shape.rank()));
  }
  std::vector<std::int64_t> result = sizes;
  const std::size_t missing = sizes.size() - shape.rank();
  for (std::size_t d = missing; d < sizes.size(); ++d) {
    const std::int64_t own = shape[d - missing];
    if (result[d] == -1) result[d] = own;
    if (own == 1 || result[d] == own) continue;
    ops::refuse_shapes("expand",
                       fmt::format("The expanded size of the tensor ({}) must match the "
                                   "existing size ({}) at non-singleton dimension {}.  "
                                   "Target sizes: [{}].  Tensor sizes: {}",
                                   result[d], own, d, fmt::join(sizes, ", "), to_string(shape)));
  }
  return Shape(result);
}

Tensor expanded(const Tensor& x, const Shape& shape) {
  const std::size_t missing = shape.rank() - x.shape().rank();
  const DPPolicy dp =
      policy_after("expand", x, shape.rank(), [&](std::size_t d) { return d + missing; });
  return runtime::strided_view(x, shape, dp, [&](const ShardInfo& shard) {
    std::vector<std::int64_t> strides = runtime::strides_of(shard);
    PartOfView part{std::vector<std::int64_t>(missing, 0), shape,
                    std::vector<std::int64_t>(missing, 0), 0};
    std::vector<std::int64_t> sizes(shape.begin(), shape.end());
    for (std::size_t d = 0; d < strides.size(); ++d) {
      const bool repeats = x.shape()[d] != shape[d + missing];
      part.offset.push_back(shard.offset[d]);
      part.strides.push_back(repeats ? 0 : strides[d]);
      if (!repeats) sizes[d + missing] = shard.shape[d];
    }
    part.shape = Shape(sizes);
    return part;
  });
}

}  // namespace

Tensor expand(const Tensor& x, const std::vector<std::int64_t>& sizes) {
  ops::check_operands("expand", {x}, ops::Types::any);
  const Shape shape = expanded_shape(x, sizes);
  for (std::size_t d = 0; d < x.shape().rank(); ++d) {
    if (x.shape()[d] != shape[d + shape.rank() - x.shape().rank()]) {
      ops::check_is_uncut("expand", x, d);
    }
  }
  return autograd::record_view(
      "expand", expanded(x, shape), x, [shape](const Tensor& of) { return expanded(of, shape); },
      [of_x = x.shape()](const Tensor& dy) { return ops::sum_to(of_x, dy); });
}

Tensor narrow(const Tensor& x, int dim, std::int64_t start, std::int64_t length) {
  ops::check_operands("narrow", {x}, ops::Types::any);
  const std::size_t dimension = ops::wrap_dimension("narrow", x, dim);
  const std::int64_t size = x.shape()[dimension];
  if (start < 0 || length < 0 || start > size || length > size - start) {
    ops::refuse_shapes("narrow", fmt::format("start ({}) + length ({}) exceeds dimension size ({})",
                                             start, length, size));
  }
  ops::check_is_uncut("narrow", x, dimension);
  const auto view = [=](const Tensor& of) {
    return runtime::stepped_view(of, {dimension, start, length});
  };
  return autograd::record_part("narrow", view(x), x, {dimension, start}, view);
}

Tensor slice(const Tensor& x, int dim, std::int64_t start, std::int64_t end, std::int64_t step) {
  ops::check_operands("slice", {x}, ops::Types::any);
  if (step <= 0) ops::refuse_shapes("slice", "slice step must be positive");
  const std::size_t dimension = ops::wrap_dimension("slice", x, dim);
  const std::int64_t size = x.shape()[dimension];
  const auto index = [&](std::int64_t at) {
    return std::clamp<std::int64_t>(at < 0 ? at + size : at, 0, size);
  };
  const std::int64_t first = index(start);
  const std::int64_t length = (std::max(index(end) - first, std::int64_t{0}) + step - 1) / step;
  if (step == 1) return narrow(x, dim, first, length);
  ops::check_is_uncut("slice", x, dimension);
  const runtime::Steps steps{dimension, first, length, step};
  return autograd::record_view(
      "slice", runtime::stepped_view(x, steps), x,
      [=](const Tensor& of) { return runtime::stepped_view(of, steps); },
      [=, form = autograd::make_gradient_form(x)](const Tensor& dy) {
        autograd::GradientForm of_whole = form;
        of_whole.placement = ops::placement_of(dy);
        const Tensor whole = autograd::zero_gradient(*dy.storage(), of_whole);
        const Tensor part = runtime::stepped_view(whole, steps);
        if (runtime::is_strided(part)) {
          ops::write_view(part, dy);
        } else {
          ops::copy_into(part, dy);
        }
        return whole;
      });
}

namespace {

// The windows along a dimension, as views of a tensor and of its gradient.
struct Windows {
  std::size_t dimension = 0;
  std::int64_t size = 0;
  std::int64_t step = 1;
  std::int64_t length = 0;  // of the dimension

  std::int64_t count() const { return (length - size) / step + 1; }

  Tensor of(const Tensor& x) const {
    const Shape& shape = x.shape();
    const auto with_windows = [&](auto values, std::int64_t own, std::int64_t last) {
      std::vector<std::int64_t> result(values.begin(), values.end());
      result[dimension] = own;
      result.push_back(last);
      return result;
    };
    const DPPolicy dp =
        policy_after("unfold", x, shape.rank() + 1, [](std::size_t d) { return d; });
    return runtime::strided_view(
        x, Shape(with_windows(shape, count(), size)), dp, [&](const ShardInfo& shard) {
          const std::vector<std::int64_t> strides = runtime::strides_of(shard);
          const std::int64_t stride = strides[dimension];
          return PartOfView{with_windows(shard.offset, 0, 0),
                            Shape(with_windows(shard.shape, count(), size)),
                            with_windows(strides, stride * step, stride), 0};
        });
  }

  // Adds up what all windows have of each element.
  Tensor gradient(const Tensor& dy) const {
    Order order(dy.shape().rank());
    std::iota(order.begin(), order.end(), 0);
    std::rotate(order.begin() + static_cast<std::ptrdiff_t>(dimension) + 1, order.end() - 1,
                order.end());
    const Tensor turned = ops::dense(permuted(dy, order), "unfold_backward");
    std::vector<std::int64_t> sizes(turned.shape().begin(), turned.shape().end());
    sizes[dimension] *= size;
    sizes.erase(sizes.begin() + static_cast<std::ptrdiff_t>(dimension) + 1);
    ops::Indices indices;
    for (std::int64_t i = 0; i < count() * size; ++i) {
      indices.push_back(i / size * step + i % size);
    }
    return ops::given_back(ops::viewed(turned, Shape(sizes), dy.dp()), dimension, indices, length);
  }
};

}  // namespace

Tensor unfold(const Tensor& x, int dim, std::int64_t size, std::int64_t step) {
  ops::check_operands("unfold", {x}, ops::Types::any);
  const std::size_t dimension = ops::wrap_dimension("unfold", x, dim);
  const std::int64_t length = x.shape()[dimension];
  if (size < 0 || size > length) {
    ops::refuse_shapes("unfold", fmt::format("maximum size for tensor at dimension {} is {} but "
                                             "size is {}",
                                             dimension, length, size));
  }
  if (step <= 0) ops::refuse_shapes("unfold", fmt::format("step is {} but must be > 0", step));
  ops::check_is_uncut("unfold", x, dimension);
  const Windows windows{dimension, size, step, length};
  return autograd::record_view(
      "unfold", windows.of(x), x, [windows](const Tensor& of) { return windows.of(of); },
      [windows](const Tensor& dy) { return windows.gradient(dy); });
}

Tensor select(const Tensor& x, int dim, std::int64_t index) {
  ops::check_operands("select", {x}, ops::Types::any);
  const std::size_t dimension = ops::wrap_dimension("select", x, dim);
  const std::int64_t size = x.shape()[dimension];
  if (index < -size || index >= size) {
    ops::refuse_shapes("select",
                       fmt::format("select(): index {} out of range for tensor of size {} at "
                                   "dimension {}",
                                   index, to_string(x.shape()), dim));
  }
  if (dimension == 0) return x[index];
  return squeeze(narrow(x, dim, index < 0 ? index + size : index, 1), dim);
}

namespace {

// Returns a strided view with another dimension of size 1 before `dimension`, or without that.
Tensor with_one(const Tensor& x, std::size_t dimension, bool is_added) {
  const auto changed = [=](auto values, std::int64_t value) {
    std::vector<std::int64_t> result(values.begin(), values.end());
    const auto at = result.begin() + static_cast<std::ptrdiff_t>(dimension);
    is_added ? result.insert(at, value) : result.erase(at);
    return result;
  };
  const Shape shape(changed(x.shape(), 1));
  const DPPolicy dp = policy_after("view", x, shape.rank(), [&](std::size_t d) {
    return d < dimension ? d : is_added ? d + 1 : d - 1;
  });
  return runtime::strided_view(x, shape, dp, [&](const ShardInfo& shard) {
    return PartOfView{changed(shard.offset, 0), Shape(changed(shard.shape, 1)),
                      changed(runtime::strides_of(shard), 1), 0};
  });
}

Tensor view_with_one(std::string_view name, const Tensor& x, std::size_t dimension, bool is_added) {
  return autograd::record_view(
      name, with_one(x, dimension, is_added), x,
      [=](const Tensor& of) { return with_one(of, dimension, is_added); },
      [shape = x.shape(), dp = x.dp()](const Tensor& dy) { return ops::viewed(dy, shape, dp); });
}

}  // namespace

Tensor unsqueeze(const Tensor& x, int dim) {
  ops::check_operands("unsqueeze", {x}, ops::Types::any);
  const auto rank = static_cast<int>(x.shape().rank());
  if (dim < -rank - 1 || dim > rank) {
    ops::refuse_shapes("unsqueeze", fmt::format("Dimension out of range (expected to be in range "
                                                "of [{}, {}], but got {})",
                                                -rank - 1, rank, dim));
  }
  const auto dimension = static_cast<std::size_t>(dim < 0 ? dim + rank + 1 : dim);
  if (runtime::is_strided(x)) return view_with_one("unsqueeze", x, dimension, true);
  std::vector<std::int64_t> sizes(x.shape().begin(), x.shape().end());
  sizes.insert(sizes.begin() + static_cast<std::ptrdiff_t>(dimension), 1);
  return reshape(x, Shape(sizes));
}

Tensor squeeze(const Tensor& x, int dim) {
  ops::check_operands("squeeze", {x}, ops::Types::any);
  const std::size_t dimension = ops::wrap_dimension("squeeze", x, dim);
  if (x.shape()[dimension] != 1) return x;
  if (runtime::is_strided(x)) return view_with_one("squeeze", x, dimension, false);
  std::vector<std::int64_t> sizes(x.shape().begin(), x.shape().end());
  sizes.erase(sizes.begin() + static_cast<std::ptrdiff_t>(dimension));
  return reshape(x, Shape(sizes));
}

}  // namespace kernbench
