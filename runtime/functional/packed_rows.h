// The rows of a packed tensor, for kernels that load and store those of a head wherever they lie.

#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "runtime/functional/packed_attention.h"
#include "runtime/functional/spread_matrix.h"
#include "runtime/tl/tl.h"

namespace kernbench::ops {

// A packed tensor [tokens, heads, columns] on the PEs of its device, or [tokens, heads], whose
// columns are one; or several, its parts.
class PackedRows {
 public:
  // REQUIRES: the tensors are contiguous, lie alike, and their tokens are cut or copies
  PackedRows(std::string_view name, const std::vector<Tensor>& parts, const PackedLayout& layout);

  // Rows [first, first + count) of a head.
  tl::Tensor load(tl::Context& tl, std::int64_t first, std::int64_t count, std::int64_t head,
                  const tl::LoadOptions& options = {}) const;
  // Stores rows from `first` on, rounded to the tensor's type.
  void store(tl::Context& tl, std::int64_t first, std::int64_t head, const tl::Tensor& rows) const;

 private:
  // Consecutive rows of a matrix, from a column on.
  struct Run {
    const SpreadMatrix& matrix;
    std::int64_t first;
    std::int64_t count;
    std::int64_t column;
  };
  std::vector<Run> find_runs(std::int64_t first, std::int64_t count, std::int64_t head) const;
  // Calls visit(matrix, pointer, begin, rows) for the rows [begin, begin + rows) of those.
  template <class Visit>
  void for_each_block_of(const tl::Context& tl, std::int64_t first, std::int64_t count,
                         std::int64_t head, const Visit& visit) const;

  PackedLayout layout_;
  std::int64_t columns_;
  DType dtype_;
  std::int64_t heads_;  // that are rows
  std::vector<SpreadMatrix> matrices_;
};

}  // namespace kernbench::ops
