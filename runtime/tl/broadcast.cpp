#include "runtime/tl/broadcast.h"

#include <algorithm>

#include "sim_engine/components/kernel_run.h"

namespace kernbench::tl {

namespace {

// Returns the size of a dimension after the shape is padded in front with sizes of 1.
std::int64_t size_in(const Shape& shape, std::size_t dimension, std::size_t rank) {
  const std::size_t missing = rank - shape.rank();
  return dimension < missing ? 1 : shape[dimension - missing];
}

}  // namespace

std::optional<Shape> common_shape(const Shape& a, const Shape& b) {
  if (a == b) return a;
  const std::size_t rank = std::max(a.rank(), b.rank());
  std::array<std::int64_t, Shape::kMaxRank> sizes{};
  for (std::size_t i = 0; i < rank; ++i) {
    const std::int64_t size_a = size_in(a, i, rank);
    const std::int64_t size_b = size_in(b, i, rank);
    if (size_a != size_b && size_a != 1 && size_b != 1) return std::nullopt;
    sizes[i] = size_a == 1 ? size_b : size_a;
  }
  return Shape(std::span(sizes).first(rank));
}

// Goes from the last dimension to the first: dimensions inside are repeated already, those outside
// not yet.
Repetitions repetitions(const Shape& from, const Shape& to) {
  Repetitions result;
  const std::size_t rank = to.rank();
  std::int64_t outer = from.numel();
  std::int64_t inner = 1;
  for (std::size_t i = rank; i > 0;) {
    const std::int64_t size = size_in(from, i - 1, rank);
    if (size == to[i - 1]) {
      inner *= size;
      outer /= size;
      --i;
      continue;
    }
    std::int64_t length = 1;
    for (; i > 0 && size_in(from, i - 1, rank) == 1; --i) length *= to[i - 1];
    result.forms[result.count++] = {outer, length, inner};
    inner *= length;
  }
  return result;
}

}  // namespace kernbench::tl
