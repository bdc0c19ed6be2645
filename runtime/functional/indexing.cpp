#include "runtime/functional/indexing.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <vector>

#include "runtime/autograd/autograd.h"
#include "runtime/functional/elementwise.h"
#include "runtime/functional/ids.h"
#include "runtime/functional/reductions.h"
#include "runtime/functional/shape_operators.h"
#include "runtime/ops/elements.h"
#include "runtime/ops/indexed.h"
#include "runtime/ops/pieces.h"
#include "runtime/tensor/host_read.h"
#include "runtime/tensor/tensor_storage.h"

namespace kernbench {

ops::Indices read_indices(const Tensor& index) {
  if (!index.storage()->simulation->machine().memory().has_data()) {
    return ops::Indices(static_cast<std::size_t>(index.numel()), 0);
  }
  return runtime::read_integers(index, runtime::HostRead::indices);
}

namespace {

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

// The operand of an operator that takes elements of it by their indices in one dimension.
struct IndexedOperand {
  Tensor tensor;  // contiguous
  std::size_t dimension = 0;
};

IndexedOperand indexed_operand(std::string_view name, const Tensor& of, int dim,
                               const Tensor& index) {
  ops::check_operands(name, {of}, ops::Types::any);
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

namespace {

// Returns what scatter and scatter_add check: the indices, row by row.
ops::Indices scatter_indices(std::string_view name, const Tensor& x, std::size_t dimension,
                             const Tensor& index, const Tensor& src) {
  ops::check_operands(name, {x, src}, ops::Types::any);
  if (index.shape() != src.shape() ||
      ops::with_size(src.shape(), dimension, x.shape()[dimension]) != x.shape()) {
    ops::refuse_shapes(name, fmt::format("Expected index {} and src {} of self {}'s size apart "
                                         "from dimension {}",
                                         to_string(index.shape()), to_string(src.shape()),
                                         to_string(x.shape()), dimension));
  }
  if (ops::placement_of(src) != ops::placement_of(x)) {
    ops::refuse_placements(name, x, src, "both must lie the same way");
  }
  ops::check_is_whole(name, x);
  return indices_along(name, x, index, dimension);
}

Tensor scatter_into(std::string_view name, const Tensor& of, int dim, const Tensor& index,
                    const Tensor& of_src, ops::Scatter how) {
  const auto [x, dimension] = indexed_operand(name, of, dim, index);
  const Tensor src = contiguous(of_src);
  const ops::Indices indices = scatter_indices(name, x, dimension, index, src);
  const auto backward = [=, dimension = dimension, shape = src.shape(),
                         is_wanted = autograd::needs_grad(x)](const Tensor& dy) {
    Tensor of_x = is_wanted ? dy : Tensor();
    if (is_wanted && how == ops::Scatter::replace) {
      Tensor zeros = ops::make_like(dy, "zeros", shape, dy.dtype(), ops::placement_of(dy));
      runtime::fill(*zeros.storage(), 0);
      of_x = ops::scattered_into(dy, dimension, indices, zeros, how);
    }
    return std::vector{of_x, ops::gathered(dy, dimension, indices, shape)};
  };
  return autograd::record(name, ops::scattered_into(x, dimension, indices, src, how), {x, src},
                          backward);
}

}  // namespace

Tensor scatter(const Tensor& x, int dim, const Tensor& index, const Tensor& src) {
  return scatter_into("scatter", x, dim, index, src, ops::Scatter::replace);
}

Tensor scatter(const Tensor& x, int dim, const Tensor& index, const Scalar& value) {
  ops::check_operands("scatter", {x}, ops::Types::any);
  Tensor src = ops::make_like(x, "src", index.shape(), x.dtype(), ops::placement_of(x));
  runtime::fill(*src.storage(), value);
  return scatter(x, dim, index, src);
}

Tensor scatter_add(const Tensor& x, int dim, const Tensor& index, const Tensor& src) {
  if (is_float8(x.dtype())) ops::check_is_floating("scatter_add", x);
  return scatter_into("scatter_add", x, dim, index, src, ops::Scatter::add);
}

Tensor nonzero(const Tensor& x) {
  ops::check_operands("nonzero", {x}, ops::Types::any);
  const std::vector<float> elements = contiguous(x.detach()).to_vector();
  std::vector<std::int64_t> indices;
  for (std::size_t i = 0; i < elements.size(); ++i) {
    if (elements[i] == 0) continue;
    auto rest = static_cast<std::int64_t>(i);
    const auto first = static_cast<std::ptrdiff_t>(indices.size());
    for (std::size_t d = x.shape().rank(); d-- > 0; rest /= x.shape()[d]) {
      indices.insert(indices.begin() + first, rest % x.shape()[d]);
    }
  }
  const std::int64_t rank = x.dim();
  const std::int64_t count = std::ranges::count_if(elements, [](float e) { return e != 0; });
  ops::Placement placement = ops::placement_of(x);
  placement.cube = placement.pe = ops::kReplicate;
  Tensor made = ops::make_like(x, "nonzero", {count, rank}, DType::i64, placement);
  runtime::set_elements(*made.storage(), std::move(indices));
  return made;
}

Tensor one_hot(const Tensor& classes, std::int64_t num_classes) {
  ops::check_operands("one_hot", {classes}, ops::Types::any);
  const ops::Indices numbers = read_indices(classes);
  const auto [least, most] = std::ranges::minmax(numbers.empty() ? ops::Indices{0} : numbers);
  if (least < 0) ops::refuse_shapes("one_hot", "Class values must be non-negative.");
  if (num_classes == -1) num_classes = most + 1;
  if (num_classes <= most) {
    ops::refuse_shapes("one_hot", "Class values must be smaller than num_classes.");
  }
  check_id_type("one_hot", classes, num_classes);
  const Tensor is_class = unsqueeze(classes.detach(), -1) == numbers_beside(classes, num_classes);
  return is_class.to(is_integral(classes.dtype()) ? DType::i64 : DType::f32);
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
  ops::check_operands(name, {of}, ops::Types::any);
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

// Finds the index of the largest, or smallest, element of each row of a block, again and again. NaN
// counts as larger than infinity, as in torch.
class ExtremesOfRows {
 public:
  ExtremesOfRows(tl::Context& tl, const tl::Tensor& block, bool largest)
      : tl_(tl),
        largest_(largest),
        columns_(block.shape()[1]),
        elements_(tl.cast(block, is_integral(block.dtype()) ? DType::i64 : DType::f32)),
        numbers_(tl.reshape(tl.arange(0, columns_), {1, columns_})),
        is_left_(tl.full(block.shape(), 1, DType::f32)) {
    if (is_integral(block.dtype())) return;
    is_nan_ = elements_ != elements_;
    if (!largest) elements_ = tl.where(*is_nan_, kInfinity, elements_);
  }

  // Returns the index of the first of those that are left, [height, 1] in f32.
  tl::Tensor next() {
    const tl::Tensor score = tl_.where(is_left_, elements_, largest_ ? -kInfinity : kInfinity);
    const tl::Tensor most =
        largest_ ? tl_.max(score, 1, {.keep_dims = true}) : tl_.min(score, 1, {.keep_dims = true});
    tl::Tensor is_most = tl_.cast(score == most, DType::f32);
    if (largest_ && is_nan_) is_most = tl_.maximum(is_most, *is_nan_);
    const auto count = static_cast<double>(columns_);
    // Infinities and NaN count alike among the smallest; infinities come first.
    const tl::Tensor place = !largest_ && is_nan_ ? tl_.fma(*is_nan_, count, numbers_) : numbers_;
    tl::Tensor index =
        tl_.min(tl_.where(is_most * is_left_, place, 2 * count), 1, {.keep_dims = true});
    if (!largest_ && is_nan_) index = tl_.where(index < count, index, index - count);
    is_left_ = is_left_ * (index != numbers_);
    return index;
  }

 private:
  static constexpr double kInfinity = std::numeric_limits<double>::infinity();

  tl::Context& tl_;
  const bool largest_;
  const std::int64_t columns_;
  tl::Tensor elements_;
  const tl::Tensor numbers_;
  tl::Tensor is_left_;
  std::optional<tl::Tensor> is_nan_;
};

// Finds the indices of the k largest, or smallest, elements of each row.
Tensor extremes_of_rows(const Tensor& x, std::int64_t k, bool largest) {
  const std::int64_t columns = x.shape()[x.shape().rank() - 1];
  Tensor result = ops::make_like(x, "topk", ops::with_size(x.shape(), x.shape().rank() - 1, k),
                                 DType::i64, ops::placement_of(x));
  ops::launch_on_rows("topk", {result}, {x}, columns, [=](tl::Context& tl) {
    const ops::LocalPart from = ops::local_part(x, tl);
    const tl::Pointer to = ops::local_part(result, tl).data;
    ops::for_each_row_block(tl, from, [&](std::int64_t row, std::int64_t height) {
      ExtremesOfRows extremes(tl, tl.load(from.data + row * columns, {height, columns}, x.dtype()),
                              largest);
      for (std::int64_t i = 0; i < k; ++i) {
        tl.store(to + row * k + i, tl.cast(extremes.next(), DType::i64), k);
      }
    });
  });
  return result;
}

}  // namespace

std::pair<Tensor, Tensor> topk(const Tensor& x, std::int64_t k, int dim, bool largest) {
  ops::check_operands("topk", {x}, ops::Types::any);
  if (is_float8(x.dtype())) ops::check_is_floating("topk", x);
  if (ops::is_point("topk", x, dim)) {
    const auto [values, indices] = topk(reshape(x, {1}), k, 0, largest);
    if (k == 0) return {values, indices};
    return {reshape(values, {}), reshape(indices, {})};
  }
  const std::size_t dimension = ops::dimension_of("topk", x, dim);
  const std::int64_t size = x.shape()[dimension];
  if (k < 0 || k > size) ops::refuse_shapes("topk", "selected index k out of range");
  const Tensor turned = contiguous(transpose(x, dim, -1));
  ops::check_has_whole_rows("topk", turned);
  if (k == 0) return {narrow(x, dim, 0, 0), narrow(x, dim, 0, 0).detach().to(DType::i64)};
  const Tensor indices = extremes_of_rows(turned.detach(), k, largest);
  const Tensor numbers = numbers_beside(x, size);
  std::vector<Tensor> values;
  for (std::int64_t i = 0; i < k; ++i) {
    const Tensor chosen = where(numbers == narrow(indices, -1, i, 1), turned, 0);
    values.push_back(sum(chosen, -1, true).to(x.dtype()));
  }
  return {contiguous(transpose(cat(values, -1), dim, -1)), contiguous(transpose(indices, dim, -1))};
}

}  // namespace kernbench
