#include "runtime/ops/pieces.h"

#include "runtime/ops/device_kernel.h"
#include "runtime/ops/strided_copy.h"
#include "runtime/tensor/strided_view.h"

namespace kernbench::ops {

namespace {

// A PE's part as a matrix around a dimension: rows before it, the dimension and inner ones as
// columns.
struct Rows {
  tl::Pointer data;
  std::int64_t count = 1;
  std::int64_t width = 1;
  std::int64_t inner = 1;  // elements per index of the dimension
};

Rows make_rows(const Tensor& tensor, std::size_t dimension, const tl::Context& tl) {
  const LocalPart part = local_part(tensor, tl);
  Rows rows{part.data};
  for (std::size_t i = 0; i < part.shape.rank(); ++i) {
    (i < dimension ? rows.count : rows.width) *= part.shape[i];
    if (i > dimension) rows.inner *= part.shape[i];
  }
  return rows;
}

// Copies `source` to `target`, from column `to` on.
void copy_columns(tl::Context& tl, const Rows& source, const Rows& target, std::int64_t to) {
  for_each_matrix_block(tl, target.count, source.width, [&](const MatrixBlock& block) {
    const tl::Tensor elements =
        tl.load(source.data + block.row * source.width + block.column, {block.height, block.width},
                source.data.dtype(), source.width);
    tl.store(target.data + block.row * target.width + to + block.column, elements, target.width);
  });
}

void fill_columns(tl::Context& tl, const Rows& target, std::int64_t to, std::int64_t columns) {
  for_each_matrix_block(tl, target.count, columns, [&](const MatrixBlock& block) {
    tl.store(target.data + block.row * target.width + to + block.column,
             tl.zeros({block.height, block.width}, target.data.dtype()), target.width);
  });
}

}  // namespace

Shape with_size(const Shape& shape, std::size_t dimension, std::int64_t size) {
  std::vector<std::int64_t> sizes(shape.begin(), shape.end());
  sizes[dimension] = size;
  return Shape(sizes);
}

Tensor narrowed(const Tensor& x, std::size_t dimension, std::int64_t start, std::int64_t length) {
  return dense(runtime::stepped_view(x, {dimension, start, length}), "narrow");
}

Tensor assembled(std::string_view name, const Shape& shape, std::size_t dimension,
                 const std::vector<Piece>& pieces) {
  const Tensor& first = pieces.front().tensor;
  Tensor result = make_like(first, name, shape, first.dtype(), placement_of(first));
  std::vector<Tensor> operands;
  for (const Piece& piece : pieces) operands.push_back(piece.tensor);
  launch(name, {result}, operands, [=](tl::Context& tl) {
    const Rows target = make_rows(result, dimension, tl);
    std::int64_t end = 0;
    for (const Piece& piece : pieces) {
      const Rows source = make_rows(piece.tensor, dimension, tl);
      const std::int64_t begin = piece.start * target.inner;
      fill_columns(tl, target, end, begin - end);
      copy_columns(tl, source, target, begin);
      end = begin + source.width;
    }
    fill_columns(tl, target, end, target.width - end);
  });
  return result;
}

}  // namespace kernbench::ops
