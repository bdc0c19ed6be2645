// How the matrices of a holder's shard lie in its memory.

#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/tensor/tensor_options.h"

namespace kernbench::ops {

// One of the loops over the matrices of a holder's part.
struct BatchLoop {
  std::int64_t size = 1;
  std::int64_t stride = 0;
};

struct MatrixLayout {
  std::vector<BatchLoop> batch;  // outermost first
  std::int64_t rows = 1;
  std::int64_t columns = 1;
  std::int64_t pitch = 0;  // from row to row, or, of a turned matrix, from column to column
  bool is_turned = false;  // its columns are stretches of the memory

  std::int64_t count() const;
  // The first element of the matrix with this number.
  std::int64_t find_begin(std::int64_t index) const;
};

// Returns nullopt if neither rows nor columns are contiguous.  `is_folded`: all dimensions but the
// last are rows of one matrix; otherwise the last two form a matrix.  Where both rows and columns
// are, as in a matrix of one row, the layout is turned if `prefers_turned`.
std::optional<MatrixLayout> make_layout(const ShardInfo& shard, bool is_folded,
                                        bool prefers_turned = false);

}  // namespace kernbench::ops
