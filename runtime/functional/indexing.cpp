#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <vector>

#include "runtime/autograd/autograd.h"
#include "runtime/functional/ids.h"
#include "runtime/functional/operators.h"
#include "runtime/functional/shape_operators.h"
#include "runtime/ops/elements.h"
#include "runtime/ops/indexed.h"
#include "runtime/ops/pieces.h"
#include "runtime/tensor/host_read.h"
#include "runtime/tensor/tensor_storage.h"

namespace kernbench {

ops::Indices read_indices(const Tensor& index) {
  runtime::check_on_device(index, "read_indices");
  if (!index.storage()->simulation->machine().memory().has_data()) {
    return ops::Indices(static_cast<std::size_t>(index.numel()), 0);
  }
  return runtime::read_integers(index, runtime::HostRead::indices);
}

std::vector<std::int64_t> checked_indices(std::string_view name, const Tensor& index,
                                          std::size_t dimension, std::int64_t size) {
  ops::Indices indices = read_indices(index);
  const std::string_view text = name == "index_select" ? "index out of range in self: " : "";
  for (const std::int64_t i : indices) {
    if (i >= 0 && i < size) continue;
    ops::refuse_shapes(
        name, fmt::format("{}index {} is out of bounds for dimension {} with size {}", text, i,
                          dimension, size));
  }
  return indices;
}

namespace {

ops::Indices indices_along(std::string_view name, const Tensor& x, const Tensor& index,
                           std::size_t dimension) {
  return checked_indices(name, index, dimension, x.shape()[dimension]);
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
  const std::size_t dimension = ops::wrap_dimension(name, x, dim);
  ops::check_is_uncut(name, x, dimension);
  return {x, dimension};
}

// The elements of a contiguous tensor with these indices.
Tensor selected(std::string_view name, const Tensor& x, std::size_t dimension,
                const ops::Indices& indices) {
  return autograd::record(name, ops::taken(x, dimension, indices), {x},
                          [indices, dimension, size = x.shape()[dimension]](const Tensor& dy) {
                            return std::vector{ops::given_back(dy, dimension, indices, size)};
                          });
}

// The elements with the indices that index_of(i, size) gives, for i below repeats * size.
template <class IndexOf>
Tensor rearranged(std::string_view name, const Tensor& of, int dim, std::int64_t repeats,
                  const IndexOf& index_of) {
  ops::check_operands(name, {of}, ops::Types::any);
  const Tensor x = contiguous(of);
  const std::size_t dimension = ops::wrap_dimension(name, x, dim);
  ops::check_is_uncut(name, x, dimension);
  const std::int64_t size = x.shape()[dimension];
  ops::Indices indices;
  for (std::int64_t i = 0; i < size * repeats; ++i) indices.push_back(index_of(i, size));
  return selected(name, x, dimension, indices);
}

}  // namespace

Tensor index_select(const Tensor& of, int dim, const Tensor& index) {
  const auto [x, dimension] = indexed_operand("index_select", of, dim, index);
  if (index.dim() > 1) {
    ops::refuse_shapes("index_select", "index_select(): Index is supposed to be a vector");
  }
  return selected("index_select", x, dimension, indices_along("index_select", x, index, dimension));
}

Tensor flip(const Tensor& x, const std::vector<int>& dims) {
  std::set<std::size_t> seen;
  for (const int dim : dims) {
    const bool is_point = ops::is_point("flip", x, dim);
    if (seen.insert(is_point ? 0 : ops::wrap_dimension("flip", x, dim)).second) continue;
    ops::refuse_shapes("flip",
                       fmt::format("dim {} appears multiple times in the list of dims", dim));
  }
  if (dims.empty() || x.dim() == 0) return clone(x);
  Tensor y = x;
  for (const int dim : dims) {
    y = rearranged("flip", y, dim, 1,
                   [](std::int64_t i, std::int64_t size) { return size - 1 - i; });
  }
  return y;
}

Tensor roll(const Tensor& x, std::int64_t shift, std::optional<int> dim) {
  if (!dim) return reshape(roll(flatten(x), shift, 0), x.shape());
  return rearranged("roll", x, *dim, 1, [shift](std::int64_t i, std::int64_t size) {
    return ((i - shift) % size + size) % size;
  });
}

Tensor repeat_interleave(const Tensor& x, std::int64_t repeats, std::optional<int> dim) {
  if (!dim) return repeat_interleave(flatten(x), repeats, 0);
  if (repeats < 0) ops::refuse_shapes("repeat_interleave", "repeats can not be negative");
  return rearranged("repeat_interleave", x, *dim, repeats,
                    [repeats](std::int64_t i, std::int64_t) { return i / repeats; });
}

Tensor masked_select(const Tensor& of, const Tensor& of_mask) {
  ops::check_operands("masked_select", {of}, ops::Types::any);
  ops::check_operands("masked_select", {of_mask}, ops::Types::any);
  if (of_mask.dtype() != DType::boolean && of_mask.dtype() != DType::u8) {
    ops::refuse_type("masked_select", "masked_select: expected BoolTensor or ByteTensor for mask");
  }
  const Shape shape = ops::broadcast_shape("masked_select", {of, of_mask});
  const std::vector<std::int64_t> sizes(shape.begin(), shape.end());
  const Tensor x = flatten(expand(of, sizes));
  const ops::Indices is_chosen = read_indices(expand(of_mask.detach(), sizes));
  ops::Indices indices;
  for (std::size_t i = 0; i < is_chosen.size(); ++i) {
    if (is_chosen[i] != 0) indices.push_back(static_cast<std::int64_t>(i));
  }
  ops::check_is_uncut("masked_select", x, 0);
  return selected("masked_select", contiguous(x), 0, indices);
}

Tensor gather(const Tensor& whole, int dim, const Tensor& index) {
  const Shape& shape = index.shape();
  if (shape.rank() != whole.shape().rank()) {
    ops::refuse_shapes("gather",
                       "Index tensor must have the same number of dimensions as input tensor");
  }
  const std::size_t along = ops::wrap_dimension("gather", whole, dim);
  Tensor of = whole;
  for (std::size_t d = 0; d < shape.rank(); ++d) {
    if (d == along || shape[d] == of.shape()[d]) continue;
    if (shape[d] > of.shape()[d]) {
      ops::refuse_shapes("gather",
                         fmt::format("Size does not match at dimension {} expected index "
                                     "{} to be smaller than self {} apart from dimension "
                                     "{}",
                                     d, to_string(shape), to_string(whole.shape()), along));
    }
    of = narrow(of, static_cast<int>(d), 0, shape[d]);
  }
  const auto [x, dimension] = indexed_operand("gather", of, dim, index);
  const ops::Indices indices = indices_along("gather", x, index, dimension);
  return autograd::record(
      "gather", ops::gathered(x, dimension, indices, shape), {x},
      [indices, dimension = dimension, size = x.shape()[dimension]](const Tensor& dy) {
        return std::vector{ops::scattered(dy, dimension, indices, size)};
      });
}

namespace {

// The first elements along each dimension, of which there are as many as the shape has.
Tensor leading(Tensor x, const Shape& shape) {
  for (std::size_t d = 0; d < shape.rank(); ++d) {
    if (shape[d] < x.shape()[d]) x = narrow(x, static_cast<int>(d), 0, shape[d]);
  }
  return x;
}

// Throws KB-F001 unless the index is no larger than x, along the dimension than src alone.
void check_scatter_shapes(std::string_view name, const Tensor& x, std::size_t dimension,
                          const Shape& index, const Tensor& src) {
  const std::size_t rank = x.shape().rank();
  for (const auto& [what, of] : {std::pair("Index", index.rank()), {"Src", src.shape().rank()}}) {
    if (of == rank) continue;
    ops::refuse_shapes(
        name,
        fmt::format("{} tensor must have the same number of dimensions as self tensor", what));
  }
  for (std::size_t d = 0; d < rank; ++d) {
    if (index[d] <= src.shape()[d] && (d == dimension || index[d] <= x.shape()[d])) continue;
    ops::refuse_shapes(name, fmt::format("Expected index {} to be smaller than self {} apart from "
                                         "dimension {} and to be smaller size than src {}",
                                         to_string(index), to_string(x.shape()), dimension,
                                         to_string(src.shape())));
  }
}

// Returns what scatter and scatter_add check: the indices, row by row.
ops::Indices scatter_indices(std::string_view name, const Tensor& x, std::size_t dimension,
                             const Tensor& index, const Tensor& src) {
  ops::check_operands(name, {x, src}, ops::Types::any);
  if (ops::placement_of(src) != ops::placement_of(x)) {
    ops::refuse_placements(name, x, src, "both must lie the same way");
  }
  ops::check_is_whole(name, x);
  return indices_along(name, x, index, dimension);
}

Tensor scatter_into(std::string_view name, const Tensor& of, int dim, const Tensor& index,
                    const Tensor& whole_src, ops::Scatter how) {
  const auto [x, dimension] = indexed_operand(name, of, dim, index);
  check_scatter_shapes(name, x, dimension, index.shape(), whole_src);
  const Tensor src = contiguous(leading(whole_src, index.shape()));
  const Shape reached = ops::with_size(index.shape(), dimension, x.shape()[dimension]);
  if (reached != x.shape()) {
    const Tensor result = clone(x);
    const Tensor part = leading(result, reached);
    part.copy_(scatter_into(name, part, dim, index, src, how));
    return result;
  }
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

// Keeps the elements where the column is at most row + diagonal and writes 0 elsewhere; for the
// upper triangle the other way round.
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

Tensor make_triangle(std::string_view name, const Tensor& of, std::int64_t diagonal,
                     bool is_lower) {
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
  return make_triangle("tril", x, diagonal, true);
}

Tensor triu(const Tensor& x, std::int64_t diagonal) {
  return make_triangle("triu", x, diagonal, false);
}

}  // namespace kernbench
