#include "tp/slices.h"

#include "runtime/functional/shape_operators.h"
#include "runtime/ops/device_kernel.h"
#include "tp/parameter.h"

namespace kernbench::tp {

namespace {

using ops::Level;
using ops::LocalPart;

// Rows of a matrix whose begins lie `pitch` elements apart.
struct PitchedRows {
  tl::Pointer begin;
  std::int64_t pitch = 0;
};

void copy_rows(tl::Context& tl, const PitchedRows& target, const PitchedRows& source,
               std::int64_t rows, std::int64_t columns) {
  ops::for_each_matrix_block(tl, rows, columns, [&](const ops::MatrixBlock& block) {
    const tl::Tensor elements =
        tl.load(source.begin + block.row * source.pitch + block.column, {block.height, block.width},
                source.begin.dtype(), source.pitch);
    tl.store(target.begin + block.row * target.pitch + block.column, elements, target.pitch);
  });
}

// The first element of a part in its tensor, seen as a matrix.
struct Corner {
  std::int64_t row = 0;
  std::int64_t column = 0;
};
Corner find_corner(const LocalPart& part) {
  const std::size_t rank = part.shape.rank();
  Corner corner;
  if (rank > 0) corner.column = part.offset[rank - 1];
  if (rank > 1) corner.row = part.offset[0];
  for (std::size_t i = 1; i + 1 < rank; ++i) corner.row *= part.shape[i];
  return corner;
}

// True if every holder of the result has the source elements.  `takes_all`: the slice covers the
// whole dimension `dim`.
bool can_slice(const Level& x, const Level& result, std::size_t dim, bool takes_all) {
  if (x.is_partial() || result.is_partial()) return x == result;
  return x.is_replicate() || (x == result && (takes_all || x.dimension != dim));
}

ops::Placement placement_of_gradient(const Tensor& gradient, const ops::Placement& tensor) {
  const ops::Placement placement = ops::gradient_placement(ops::placement_of(gradient), tensor);
  if (ops::is_gradient_placement(placement, tensor)) return placement;
  ops::refuse_placement(
      "backward of a mapping", gradient,
      "its holders have summands, and each needs its part of the sum: behind the mapping use "
      "copy_to_tensor_model_parallel_region over a group of this rank alone");
}

}  // namespace

Tensor slice(const Tensor& x, std::size_t dim, std::int64_t begin, std::int64_t length,
             const ops::Placement& placement) {
  const ops::Placement of_x = ops::placement_of(x);
  const bool takes_all = length == x.shape()[dim];
  if (takes_all && placement == of_x) return x;
  if (!of_x.has_holders_of(placement) || !can_slice(of_x.cube, placement.cube, dim, takes_all) ||
      !can_slice(of_x.pe, placement.pe, dim, takes_all)) {
    ops::refuse_placement("slice", x,
                          "each PE's part of the result must be in its part of the tensor, which "
                          "is so if it is replicated, or cut along another dimension");
  }
  std::vector<std::int64_t> sizes(x.shape().begin(), x.shape().end());
  sizes.at(dim) = length;
  std::int64_t rows_before = dim + 1 == sizes.size() ? 0 : begin;
  for (std::size_t i = 1; i + 1 < sizes.size(); ++i) rows_before *= sizes[i];
  const std::int64_t columns_before = dim + 1 == sizes.size() ? begin : 0;
  const Tensor result = ops::make_like(x, "slice", Shape(sizes), x.dtype(), placement);
  if (result.numel() == 0) return result;
  ops::launch("slice", {result}, {x}, [=](tl::Context& tl) {
    const LocalPart target = ops::local_part(result, tl);
    const LocalPart source = ops::local_part(x, tl);
    const Corner to = find_corner(target);
    const Corner from = find_corner(source);
    const std::int64_t row = to.row + rows_before - from.row;
    const std::int64_t column = to.column + columns_before - from.column;
    copy_rows(tl, {target.data, target.columns},
              {source.data + row * source.columns + column, source.columns}, target.rows,
              target.columns);
  });
  return result;
}

Tensor slice_of_gradient(const Tensor& gradient, std::size_t dim, std::int64_t begin,
                         std::int64_t length, const ops::Placement& tensor) {
  return slice(gradient, dim, begin, length, placement_of_gradient(gradient, tensor));
}

Tensor gradient_like(const Tensor& gradient, const ops::Placement& tensor) {
  const ops::Placement placement = placement_of_gradient(gradient, tensor);
  if (placement == ops::placement_of(gradient)) return gradient;
  return slice(gradient, 0, 0, gradient.shape()[0], placement);
}

ops::Placement uncut_along(const Tensor& x, std::size_t dim) {
  return *ops::by_level(ops::placement_of(x), [&](const Level& level) -> std::optional<Level> {
    const bool is_uncut = level.is_cut() && level.dimension != dim;
    return is_uncut ? level : ops::kReplicate;
  });
}

std::vector<Tensor> split_tensor_along_last_dim(const Tensor& x, int num_partitions) {
  return split(x, divide(x.shape()[x.shape().rank() - 1], num_partitions), -1);
}

}  // namespace kernbench::tp
