// Parts of a tensor along a dimension: taken out of it, and put together.  They record nothing.

#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "runtime/tensor/tensor.h"

namespace kernbench::ops {

// What is elements [start, start + its own size) of another tensor, along a dimension.
struct Piece {
  Tensor tensor;
  std::int64_t start = 0;
};

// `shape`, with another size of a dimension.
Shape with_size(const Shape& shape, std::size_t dimension, std::int64_t size);

// Elements [start, start + length), in memory of their own.
// REQUIRES: the dimension is not cut
Tensor narrowed(const Tensor& x, std::size_t dimension, std::int64_t start, std::int64_t length);

// A tensor of this shape with the elements of all pieces, and 0 where there is none: one kernel,
// which reads the pieces and writes the whole once.
// REQUIRES: pieces of one type and placement, at least one, in order and without overlaps
Tensor assembled(std::string_view name, const Shape& shape, std::size_t dimension,
                 const std::vector<Piece>& pieces);

}  // namespace kernbench::ops
