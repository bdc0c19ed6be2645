// Views whose elements do not follow each other in the memory of their holders: torch's strides,
// for each holder's shard (ADR-0215).

#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "runtime/tensor/tensor.h"

namespace kernbench::runtime {

// A holder's part of a view.
struct PartOfView {
  std::vector<std::int64_t> offset;  // of its first element in the view, per dimension
  Shape shape;
  std::vector<std::int64_t> strides;  // from index to index, in elements of the memory
  std::int64_t first = 0;             // of its first element, counted from that of the base's part
};

// Makes a view of this shape, of which `part_of` gives each holder's part for its part of the base.
// The view needs no gradient.
Tensor strided_view(const Tensor& base, const Shape& shape, const DPPolicy& dp,
                    const std::function<PartOfView(const ShardInfo& of_base)>& part_of);

// Elements `start`, start + step, ... of a dimension, `length` of them.
struct Steps {
  std::size_t dimension = 0;
  std::int64_t start = 0;
  std::int64_t length = 0;
  std::int64_t step = 1;
};
// Returns a view of these elements, which needs no gradient; strided if they lie apart.
// REQUIRES: the dimension is not cut and has them
Tensor stepped_view(const Tensor& base, const Steps& steps);

// The strides of elements that lie row by row.
std::vector<std::int64_t> dense_strides(const Shape& shape);
// The strides of a holder's elements.
std::vector<std::int64_t> strides_of(const ShardInfo& shard);

// False for a host tensor.
bool is_strided(const Tensor& tensor);
// True if a view's elements along a dimension are one element of the memory, as those of expand()
// are.  It asks the holders of several elements along it: the strides of others mean nothing.
bool repeats_along(const Tensor& tensor, std::size_t dimension);
// True if that is so along any dimension.
bool repeats_elements(const Tensor& tensor);

// Throws DeviceError KB-F005 for a strided view.  `user` names the operation that cannot use it.
void check_is_contiguous(const Tensor& tensor, std::string_view user);

}  // namespace kernbench::runtime
