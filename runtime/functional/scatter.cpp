// Operators that add to, or write, elements of a tensor by their indices, in place too.

#include <fmt/format.h>

#include "runtime/autograd/autograd.h"
#include "runtime/functional/operators.h"
#include "runtime/functional/shape_operators.h"
#include "runtime/ops/indexed.h"
#include "runtime/ops/pieces.h"
#include "runtime/ops/placement.h"

namespace kernbench {

Tensor index_add(const Tensor& x, int dim, const Tensor& index, const Tensor& of_src,
                 double alpha) {
  ops::check_operands("index_add", {x, of_src}, ops::Types::any);
  if (is_float8(x.dtype())) ops::check_is_floating("index_add", x);
  const std::size_t dimension = ops::wrap_dimension("index_add", x, dim);
  ops::check_is_uncut("index_add", x, dimension);
  ops::check_is_whole("index_add", of_src);
  const Tensor src = contiguous(of_src);
  if (index.dim() > 1 || ops::with_size(x.shape(), dimension, index.numel()) != src.shape()) {
    ops::refuse_shapes(
        "index_add",
        fmt::format("source {} should have self {}'s sizes and, along dimension {}, as "
                    "many elements as the index {}",
                    to_string(src.shape()), to_string(x.shape()), dimension,
                    to_string(index.shape())));
  }
  const std::int64_t size = x.shape()[dimension];
  const ops::Indices indices = checked_indices("index_add", index, dimension, size);
  const Tensor sums = autograd::record("index_add", ops::given_back(src, dimension, indices, size),
                                       {src}, [indices, dimension](const Tensor& dy) {
                                         return std::vector{ops::taken(dy, dimension, indices)};
                                       });
  return add(x, sums, alpha);
}

Tensor Tensor::index_add(int dim, const Tensor& index, const Tensor& src, double alpha) const {
  return kernbench::index_add(*this, dim, index, src, alpha);
}
const Tensor& Tensor::index_add_(int dim, const Tensor& index, const Tensor& src,
                                 double alpha) const {
  return copy_(index_add(dim, index, src, alpha));
}
const Tensor& Tensor::scatter_(int dim, const Tensor& index, const Tensor& src) const {
  return copy_(scatter(dim, index, src));
}
const Tensor& Tensor::scatter_(int dim, const Tensor& index, const Scalar& value) const {
  return copy_(scatter(dim, index, value));
}
const Tensor& Tensor::scatter_add_(int dim, const Tensor& index, const Tensor& src) const {
  return copy_(scatter_add(dim, index, src));
}

}  // namespace kernbench
