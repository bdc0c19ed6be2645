// Rows in a kernel's scratch: views of them, and sums of which the first rows alone may grow.

#pragma once

#include <cstdint>
#include <vector>

#include "runtime/tl/tl.h"
#include "sim_engine/base/shape.h"

namespace kernbench::ops {

// Consecutive rows [first, first + count).
struct RowRange {
  std::int64_t first = 0;
  std::int64_t count = 0;
};

// Views of the same elements.
tl::Tensor flat(tl::Context& tl, const tl::Tensor& x);
tl::Tensor as_rows(tl::Context& tl, const tl::Tensor& x, std::int64_t columns);
tl::Tensor narrowed(tl::Context& tl, const tl::Tensor& x, const RowRange& rows);

// A sum of products in f32.  Its pieces' rows follow each other: rows of a causal sequence that see
// few keys add to the first of them alone.
class SumOfProducts {
 public:
  SumOfProducts(tl::Context& tl, const Shape& shape);

  // Adds a b to the first rows, as many as a has.
  void add(tl::Context& tl, const tl::Tensor& a, const tl::Tensor& b);
  tl::Tensor join(tl::Context& tl) const;

 private:
  std::vector<tl::Tensor> pieces_;
};

}  // namespace kernbench::ops
