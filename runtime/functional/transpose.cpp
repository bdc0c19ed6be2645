#include <algorithm>
#include <utility>

#include "runtime/autograd/autograd.h"
#include "runtime/functional/shape_operators.h"
#include "runtime/ops/device_kernel.h"

namespace kernbench {

namespace {

using ops::Level;
using ops::LocalPart;

// A shape grouped around the two exchanged dimensions: [outer][a][middle][b][inner].
struct Form {
  std::int64_t outer = 1;
  std::int64_t a = 1;
  std::int64_t middle = 1;
  std::int64_t b = 1;
  std::int64_t inner = 1;
};

Form form_of(const Shape& shape, std::size_t first, std::size_t second) {
  Form form;
  for (std::size_t i = 0; i < shape.rank(); ++i) {
    std::int64_t& group = i < first     ? form.outer
                          : i == first  ? form.a
                          : i < second  ? form.middle
                          : i == second ? form.b
                                        : form.inner;
    group *= shape[i];
  }
  return form;
}

// Transposes an [a, b] matrix whose rows lie `source_pitch` apart into a [b, a] one.
void transpose_matrix(tl::Context& tl, const Form& form, const tl::Pointer& source,
                      const tl::Pointer& target) {
  const std::int64_t source_pitch = form.middle * form.b;
  const std::int64_t target_pitch = form.middle * form.a;
  ops::for_each_matrix_block(tl, form.a, form.b, [&](const ops::MatrixBlock& block) {
    const tl::Tensor elements = tl.load(source + block.row * source_pitch + block.column,
                                        {block.height, block.width}, source.dtype(), source_pitch);
    tl.store(target + block.column * target_pitch + block.row, tl.trans(elements), target_pitch);
  });
}

// Moves [a, middle, b, inner] to [b, middle, a, inner] for one index of `middle`.  Rows of `inner`
// elements change places, with one command per index of the smaller dimension.
void move_rows(tl::Context& tl, const Form& form, const tl::Pointer& source,
               const tl::Pointer& target) {
  const bool by_a = form.a <= form.b;
  // Distances between rows, along the dimension that a command moves and the one that is looped
  // over.
  const std::int64_t source_a = form.middle * form.b * form.inner;
  const std::int64_t target_b = form.middle * form.a * form.inner;
  const std::int64_t source_pitch = by_a ? form.inner : source_a;
  const std::int64_t target_pitch = by_a ? target_b : form.inner;
  const auto move = [&](std::int64_t from, std::int64_t to, const ops::MatrixBlock& block) {
    tl.store(target + to + block.row * target_pitch + block.column,
             tl.load(source + from + block.row * source_pitch + block.column,
                     {block.height, block.width}, source.dtype(), source_pitch),
             target_pitch);
  };
  for (std::int64_t i = 0; i < std::min(form.a, form.b); ++i) {
    const std::int64_t from = i * (by_a ? source_a : form.inner);
    const std::int64_t to = i * (by_a ? form.inner : target_b);
    ops::for_each_matrix_block(tl, std::max(form.a, form.b), form.inner,
                               [&](const ops::MatrixBlock& block) { move(from, to, block); });
  }
}

void transpose_part(tl::Context& tl, const Form& form, const LocalPart& source,
                    const LocalPart& target) {
  for (std::int64_t outer = 0; outer < form.outer; ++outer) {
    const std::int64_t begin = outer * form.a * form.middle * form.b * form.inner;
    for (std::int64_t middle = 0; middle < form.middle; ++middle) {
      const tl::Pointer from = source.data + begin + middle * form.b * form.inner;
      const tl::Pointer to = target.data + begin + middle * form.a * form.inner;
      if (form.inner == 1) {
        transpose_matrix(tl, form, from, to);
      } else {
        move_rows(tl, form, from, to);
      }
    }
  }
}

Tensor transposed(const Tensor& x, std::size_t first, std::size_t second) {
  std::vector<std::int64_t> sizes(x.shape().begin(), x.shape().end());
  std::swap(sizes[first], sizes[second]);
  const auto placement =
      ops::by_level(ops::placement_of(x), [&](Level level) -> std::optional<Level> {
        if (!level.is_cut()) return level;
        if (level.dimension == first) return ops::cut(second);
        return level.dimension == second ? ops::cut(first) : level;
      });
  Tensor result = ops::make_like(x, "transpose", Shape(sizes), x.dtype(), *placement);
  ops::launch("transpose", {result}, {x}, [=](tl::Context& tl) {
    const LocalPart source = ops::local_part(x, tl);
    transpose_part(tl, form_of(source.shape, first, second), source, ops::local_part(result, tl));
  });
  return result;
}

}  // namespace

Tensor transpose(const Tensor& x, int dim0, int dim1) {
  ops::check_operands("transpose", {x});
  const auto [first, second] = std::minmax(
      {ops::dimension_of("transpose", x, dim0), ops::dimension_of("transpose", x, dim1)});
  if (first == second) return x;
  return autograd::record("transpose", transposed(x, first, second), {x},
                          [first = first, second = second](const Tensor& dy) {
                            return std::vector{transposed(dy, first, second)};
                          });
}

}  // namespace kernbench
