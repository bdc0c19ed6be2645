#include "runtime/functional/indexing.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

#include "runtime/autograd/autograd.h"
#include "runtime/functional/elementwise.h"
#include "runtime/functional/reductions.h"
#include "runtime/functional/shape_operators.h"
#include "runtime/ops/elements.h"
#include "runtime/ops/indexed.h"
#include "runtime/ops/pieces.h"
#include "runtime/tensor/host_read.h"
#include "runtime/tensor/tensor_storage.h"

namespace kernbench {

namespace {

// Reads whole numbers; zeros in a run without values.
ops::Indices read_indices(const Tensor& index) {
  ops::Indices indices(static_cast<std::size_t>(index.numel()), 0);
  if (!index.storage()->simulation->machine().memory().has_data()) return indices;
  const std::vector<float> numbers = runtime::read_elements(index, runtime::HostRead::indices);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    indices[i] = static_cast<std::int64_t>(numbers[i]);
  }
  return indices;
}

ops::Indices indices_along(std::string_view name, const Tensor& x, const Tensor& index,
                           std::size_t dimension) {
  ops::Indices indices = read_indices(index);
  const std::int64_t size = x.shape()[dimension];
  for (const std::int64_t i : indices) {
    if (i >= 0 && i < size) continue;
    ops::refuse_shapes(name, fmt::format("index {} is out of bounds for dimension {} with size {}",
                                         i, dimension, size));
  }
  return indices;
}

// 0, 1, ... on the holders of x, as a tensor of one dimension.
Tensor numbers_beside(const Tensor& x, std::int64_t count) {
  ops::Placement placement = ops::placement_of(x);
  placement.cube = placement.pe = ops::kReplicate;
  Tensor made = ops::make_like(x, "numbers", {count}, DType::f32, placement);
  std::vector<float> numbers(static_cast<std::size_t>(count));
  std::iota(numbers.begin(), numbers.end(), 0.0F);
  runtime::set_elements(*made.storage(), numbers);
  return made;
}

// The operand of an operator that takes elements of it by their indices in one dimension.
struct IndexedOperand {
  Tensor tensor;  // contiguous
  std::size_t dimension = 0;
};

IndexedOperand indexed_operand(std::string_view name, const Tensor& of, int dim,
                               const Tensor& index) {
  ops::check_operands(name, {of});
  runtime::check_on_device(index, name);
  const Tensor x = contiguous(of);
  const std::size_t dimension = ops::dimension_of(name, x, dim);
  ops::check_is_uncut(name, x, dimension);
  return {x, dimension};
}

}  // namespace

Tensor index_select(const Tensor& of, int dim, const Tensor& index) {
  const auto [x, dimension] = indexed_operand("index_select", of, dim, index);
  if (index.dim() > 1) {
    ops::refuse_shapes("index_select", "Index is supposed to be a vector");
  }
  const ops::Indices indices = indices_along("index_select", x, index, dimension);
  return autograd::record(
      "index_select", ops::taken(x, dimension, indices), {x},
      [indices, dimension = dimension, size = x.shape()[dimension]](const Tensor& dy) {
        return std::vector{ops::given_back(dy, dimension, indices, size)};
      });
}

Tensor gather(const Tensor& of, int dim, const Tensor& index) {
  const auto [x, dimension] = indexed_operand("gather", of, dim, index);
  const Shape& shape = index.shape();
  if (shape.rank() != x.shape().rank()) {
    ops::refuse_shapes("gather",
                       "Index tensor must have the same number of dimensions as input tensor");
  }
  for (std::size_t d = 0; d < shape.rank(); ++d) {
    if (d == dimension || shape[d] == x.shape()[d]) continue;
    ops::refuse_shapes("gather", fmt::format("index {} and self {} must have equal sizes apart "
                                             "from dimension {}",
                                             to_string(shape), to_string(x.shape()), dimension));
  }
  const ops::Indices indices = indices_along("gather", x, index, dimension);
  return autograd::record(
      "gather", ops::gathered(x, dimension, indices, shape), {x},
      [indices, dimension = dimension, size = x.shape()[dimension]](const Tensor& dy) {
        return std::vector{ops::scattered(dy, dimension, indices, size)};
      });
}

Tensor one_hot(const Tensor& classes, std::int64_t num_classes) {
  ops::check_operands("one_hot", {classes});
  const ops::Indices numbers = read_indices(classes);
  const auto [least, most] = std::ranges::minmax(numbers.empty() ? ops::Indices{0} : numbers);
  if (least < 0) ops::refuse_shapes("one_hot", "Class values must be non-negative.");
  if (num_classes == -1) num_classes = most + 1;
  if (num_classes <= most) {
    ops::refuse_shapes("one_hot", "Class values must be smaller than num_classes.");
  }
  return unsqueeze(classes.detach().to(DType::f32), -1) == numbers_beside(classes, num_classes);
}

namespace {

// dy, or x, where the column is at most row + diagonal, else 0; or the other way round.
Tensor triangle(std::string_view name, const Tensor& x, std::int64_t diagonal, bool is_lower) {
  return ops::map_rows(
      name, ops::placement_of(x), {x},
      ops::Owning([=](tl::Context& tl, std::span<const tl::Tensor> of, const ops::RowBlock& rows) {
        const std::int64_t columns = of[0].shape()[1];
        const tl::Tensor row =
            tl.reshape(tl.arange(rows.first, rows.first + rows.count), {rows.count, 1}) +
            static_cast<double>(diagonal);
        const tl::Tensor column = tl.reshape(tl.arange(0, columns), {1, columns});
        return tl.where(is_lower ? column <= row : column >= row, of[0], 0);
      }));
}

Tensor triangle_of(std::string_view name, const Tensor& of, std::int64_t diagonal, bool is_lower) {
  ops::check_operands(name, {of});
  if (of.dim() < 2) {
    ops::refuse_shapes(name, "input tensor must have at least 2 dimensions");
  }
  const Tensor x = contiguous(of);
  ops::check_has_whole_rows(name, x);
  return autograd::record(name, triangle(name, x, diagonal, is_lower), {x}, [=](const Tensor& dy) {
    return std::vector{triangle("tri_backward", dy, diagonal, is_lower)};
  });
}

}  // namespace

Tensor tril(const Tensor& x, std::int64_t diagonal) {
  return triangle_of("tril", x, diagonal, true);
}

Tensor triu(const Tensor& x, std::int64_t diagonal) {
  return triangle_of("triu", x, diagonal, false);
}

namespace {

// Finds the indices of the k largest elements of each row.
Tensor largest_of_rows(const Tensor& x, std::int64_t k) {
  const std::int64_t columns = x.shape()[x.shape().rank() - 1];
  Tensor result = ops::make_like(x, "topk", ops::with_size(x.shape(), x.shape().rank() - 1, k),
                                 DType::f32, ops::placement_of(x));
  ops::launch_on_rows("topk", {result}, {x}, columns, [=](tl::Context& tl) {
    const ops::LocalPart from = ops::local_part(x, tl);
    const tl::Pointer to = ops::local_part(result, tl).data;
    ops::for_each_row_block(tl, from, [&](std::int64_t row, std::int64_t height) {
      const tl::Tensor elements =
          tl.cast(tl.load(from.data + row * columns, {height, columns}, x.dtype()), DType::f32);
      tl::Tensor is_left = tl.full({height, columns}, 1, DType::f32);
      for (std::int64_t i = 0; i < k; ++i) {
        constexpr double kInfinity = std::numeric_limits<double>::infinity();
        const tl::Tensor score = tl.where(is_left, elements, -kInfinity);
        const tl::Tensor is_largest = (score == tl.max(score, 1, {.keep_dims = true})) * is_left;
        const tl::Tensor index =
            tl.min(tl.where(is_largest, tl.arange(0, columns), static_cast<double>(columns)), 1,
                   {.keep_dims = true});
        tl.store(to + row * k + i, index, k);
        is_left = is_left * (index != tl.reshape(tl.arange(0, columns), {1, columns}));
      }
    });
  });
  return result;
}

}  // namespace

std::pair<Tensor, Tensor> topk(const Tensor& x, std::int64_t k, int dim, bool largest) {
  ops::check_operands("topk", {x});
  const std::size_t dimension = ops::dimension_of("topk", x, dim);
  const std::int64_t size = x.shape()[dimension];
  if (k <= 0 || k > size) ops::refuse_shapes("topk", "selected index k out of range");
  const Tensor turned = contiguous(transpose(x, dim, -1));
  ops::check_has_whole_rows("topk", turned);
  const Tensor indices = largest_of_rows(largest ? turned.detach() : -turned.detach(), k);
  const Tensor numbers = numbers_beside(x, size);
  std::vector<Tensor> values;
  for (std::int64_t i = 0; i < k; ++i) {
    values.push_back(sum(where(numbers == narrow(indices, -1, i, 1), turned, 0.0), -1, true));
  }
  return {contiguous(transpose(cat(values, -1), dim, -1)), contiguous(transpose(indices, dim, -1))};
}

}  // namespace kernbench
