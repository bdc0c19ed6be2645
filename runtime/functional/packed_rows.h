// The rows of a packed tensor, for kernels that load and store those of a head wherever they lie.

#pragma once

#include <cstdint>
#include <string_view>

#include "runtime/functional/spread_matrix.h"
#include "runtime/tl/tl.h"

namespace kernbench::ops {

// A packed tensor [tokens, heads, columns] on the PEs of its device, or [tokens, heads], whose
// columns are one.
class PackedRows {
 public:
  // REQUIRES: the tensor is contiguous, and its tokens are cut or copies
  PackedRows(std::string_view name, const Tensor& packed);

  // Rows [first, first + count) of a head.
  tl::Tensor load(tl::Context& tl, std::int64_t first, std::int64_t count, std::int64_t head,
                  const tl::LoadOptions& options = {}) const;
  // Stores rows from `first` on, rounded to the tensor's type.
  void store(tl::Context& tl, std::int64_t first, std::int64_t head, const tl::Tensor& rows) const;

 private:
  tl::RowsInBlocks find(const tl::Context& tl, std::int64_t first, std::int64_t count,
                        std::int64_t head) const;

  std::int64_t columns_;
  DType dtype_;
  SpreadMatrix matrix_;
};

}  // namespace kernbench::ops
