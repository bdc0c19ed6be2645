// Takes parts of a tensor along a dimension, and assembles tensors from parts.  Records nothing.

#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "runtime/tensor/tensor.h"

namespace kernbench::ops {

// A tensor that provides elements [start, start + its own size) of another one, along a dimension.
struct Piece {
  Tensor tensor;
  std::int64_t start = 0;
};

// Returns `shape` with another size of one dimension.
Shape with_size(const Shape& shape, std::size_t dimension, std::int64_t size);

// Returns elements [start, start + length): a view where they follow each other in memory, else in
// memory of their own.
// REQUIRES: the dimension is not split
Tensor narrowed(const Tensor& x, std::size_t dimension, std::int64_t start, std::int64_t length);

// Returns a tensor of this shape with the elements of all pieces, and 0 elsewhere.  One kernel
// reads the pieces and writes the whole once.
// REQUIRES: pieces of one type and placement, at least one, in order and without overlaps
Tensor assembled(std::string_view name, const Shape& shape, std::size_t dimension,
                 const std::vector<Piece>& pieces);

}  // namespace kernbench::ops
